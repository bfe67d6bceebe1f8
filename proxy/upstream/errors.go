package upstream

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Kind says what a failed call means for the caller.
type Kind uint8

const (
	// Unavailable: no usable answer came (5xx, network, dropped connection, malformed body, too slow). Retries are spent.
	Unavailable Kind = iota
	// Quota: the upstream's own limit for this site, user or project. RetryAfter says how long to let it rest.
	Quota
	// Forbidden: the account has no access to this property. Other properties of the connection may work.
	Forbidden
	// Revoked: the credentials are dead, and with them the whole connection, until somebody connects again.
	Revoked
	// Misconfigured: the credentials are alive but cannot work as set up; Message says what to change. Whole connection.
	Misconfigured
	// Rejected: the upstream refuses the question itself; asking again gives the same answer.
	Rejected
	// Interrupted: the caller's context ended first. The error wraps context.DeadlineExceeded, when the upstream was too
	// slow for the caller, or context.Canceled, which says nothing about the upstream.
	Interrupted
)

const kinds = int(Interrupted) + 1

func (k Kind) String() string {
	switch k {
	case Quota:
		return "quota"
	case Forbidden:
		return "forbidden"
	case Revoked:
		return "revoked"
	case Misconfigured:
		return "misconfigured"
	case Rejected:
		return "rejected"
	case Interrupted:
		return "interrupted"
	default:
		return "unavailable"
	}
}

// Error is a call that failed. Errors may be shared between callers and must not be changed.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status of the answer that decided, 0 when there was none
	Reason     string        // the upstream's own word for it, such as quotaExceeded or invalid_grant; may be empty
	Message    string        // for a person: the upstream's text, or what to do; never holds a secret
	RetryAfter time.Duration // how long to wait before asking again, 0 when nobody said

	cause     error // a context's error or nil; never a library's, whose text might repeat what was sent
	transient bool  // another attempt may help
	dropped   bool  // the connection ended before the answer began: maybe only a stale one from the pool
}

// Error reads "search console: quota (403 quotaExceeded): Search Analytics load quota exceeded.".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("search console: ")
	b.WriteString(e.Kind.String())
	switch {
	case e.Status != 0 && e.Reason != "":
		fmt.Fprintf(&b, " (%d %s)", e.Status, e.Reason)
	case e.Status != 0:
		fmt.Fprintf(&b, " (%d)", e.Status)
	}
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// Unwrap gives the context's error of an Interrupted call, else nil.
func (e *Error) Unwrap() error { return e.cause }

// unreachable is trouble on the way to a server or back; text is the network's own account of it.
func unreachable(text string, secrets ...string) *Error {
	return &Error{Kind: Unavailable, Message: clean(text, secrets...), transient: true}
}

func interrupted(cause error) *Error {
	return &Error{Kind: Interrupted, Message: cause.Error(), cause: cause}
}

const (
	maxMessage = 300 // runes
	minSecret  = 8   // bytes; Google issues longer ones, and taking out shorter ones would eat words
	maxWord    = 200 // bytes; longer than any URL in Google's messages, shorter than a signed assertion
)

// clean makes a server's or a library's text fit for an error: one line, bounded, without the given secrets and without
// words long enough to be a signed assertion sent back.
func clean(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	words := strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	for i, word := range words {
		if len(word) > maxWord {
			words[i] = "[…]"
		}
	}
	runes := []rune(strings.Join(words, " "))
	if len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return string(runes)
}
