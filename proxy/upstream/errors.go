package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// Kind classifies failed calls by what they mean for the caller.
type Kind uint8

const (
	// Unavailable: no usable answer came (5xx, network, dropped connection, malformed body, too slow). Retries are exhausted.
	Unavailable Kind = iota
	// Quota: the upstream's own limit for this site, user or project. RetryAfter is how long to wait.
	Quota
	// Forbidden: the account has no access to this property. Other properties of the connection may work.
	Forbidden
	// Revoked: the credentials are dead, and the whole connection with them, until new ones are stored.
	Revoked
	// Misconfigured: the credentials are alive but cannot work as set up; Message says what to change. It concerns the whole
	// connection.
	Misconfigured
	// Rejected: the upstream refuses the request itself; repeating it gives the same answer.
	Rejected
	// Interrupted: the caller's context ended first. The error wraps context.DeadlineExceeded if the upstream was too slow
	// for the caller, or context.Canceled, which shows nothing about the upstream.
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

// KindOf returns the kind of an error of a Gateway. An error of any other type may pass, so it counts as Unavailable.
func KindOf(err error) Kind {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure.Kind
	}
	return Unavailable
}

// CredentialsError is a call that failed because the store could not be read.
type CredentialsError struct {
	ConnectionID string
	Err          error
}

func (e *CredentialsError) Error() string {
	return fmt.Sprintf("connection %s: %v", e.ConnectionID, e.Err)
}

// Unwrap returns the store's error.
func (e *CredentialsError) Unwrap() error { return e.Err }

// Error is a call that failed. Errors may be shared between callers and must not be changed.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status of the deciding answer; 0 if there was none
	Reason     string        // the upstream's own word for it, such as quotaExceeded or invalid_grant; may be empty
	Message    string        // for a person: the upstream's text, or what to do; never holds a secret
	RetryAfter time.Duration // how long to wait before asking again, 0 if unknown
	Daily      bool          // for Quota: the upstream says that it is a daily quota

	detail    string // a token endpoint's own text, for the log but not for customers; not shared between replicas
	cause     error  // a context's error or nil; never a library's, whose text might repeat what was sent
	transient bool   // a retry may help
	refused   bool   // the token endpoint refuses the credentials for a reason that this package does not know
	dropped   bool   // the connection ended before the answer began: perhaps a stale one from the pool
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
	if e.detail != "" {
		b.WriteString(": ")
		b.WriteString(e.detail)
	}
	return b.String()
}

// Unwrap returns the context's error of an Interrupted call, else nil.
func (e *Error) Unwrap() error { return e.cause }

// unreachable is a failure on the way to a server or back; text is the network's own description.
func unreachable(text string, secrets ...string) *Error {
	return &Error{Kind: Unavailable, Message: clean(text, secrets...), transient: true}
}

func interrupted(cause error) *Error {
	return &Error{Kind: Interrupted, Message: cause.Error(), cause: cause}
}

// errorJSON is the form in which replicas share an Error.
type errorJSON struct {
	Kind       string `json:"kind"`
	Status     int    `json:"status,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter string `json:"retry_after,omitempty"` // a Go duration, such as 15m0s
}

// IsShareable reports whether the error also holds for the other callers that wait for the same answer (singleflight). It does
// not if only this caller left. It does if the upstream was too slow for this caller, because then it is too slow for the
// others too.
func (e *Error) IsShareable() bool { return !errors.Is(e, context.Canceled) }

// MarshalJSON writes the exported fields but Daily: inspections, which it is for, are not shared.
func (e *Error) MarshalJSON() ([]byte, error) {
	text := errorJSON{Kind: e.Kind.String(), Status: e.Status, Reason: e.Reason, Message: e.Message}
	if e.RetryAfter != 0 {
		text.RetryAfter = e.RetryAfter.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON wrote, perhaps in another version of sara: an unknown kind becomes Unavailable. So does
// Interrupted, because the context's error is not shared. If data is not an Error, it returns an error and leaves e unchanged.
func (e *Error) UnmarshalJSON(data []byte) error {
	var text errorJSON
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("read an upstream error: %w", err)
	}
	var retryAfter time.Duration
	if text.RetryAfter != "" {
		var err error
		if retryAfter, err = time.ParseDuration(text.RetryAfter); err != nil || retryAfter < 0 {
			return fmt.Errorf("read an upstream error: retry_after %.40q is not a wait", text.RetryAfter)
		}
	}
	if text.Kind == "" || text.Status < 0 {
		return errors.New("read an upstream error: the kind is missing, or the status is negative")
	}
	*e = Error{Kind: parseKind(text.Kind), Status: text.Status, Reason: text.Reason, Message: text.Message, RetryAfter: retryAfter}
	return nil
}

// parseKind finds a Kind by its name among those that can be shared.
func parseKind(name string) Kind {
	for k := Unavailable; k < Interrupted; k++ {
		if k.String() == name {
			return k
		}
	}
	return Unavailable
}

const (
	maxMessage = 300 // runes
	minSecret  = 8   // bytes; Google's are longer, and removing shorter ones would garble the text
	maxWord    = 200 // bytes; longer than any URL in Google's messages, shorter than a signed assertion
)

// clean makes a text from a server or a library fit for an error: one line, truncated, without the given secrets, as they are or as a form
// encodes them, and without words long enough to be a signed assertion that the server echoes.
func clean(text string, secrets ...string) string {
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			text = strings.NewReplacer(secret, "[secret]", url.QueryEscape(secret), "[secret]").Replace(text)
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
