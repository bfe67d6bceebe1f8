package sqlstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/policy/keyring"
)

var (
	// ErrNoSecretKey: the store was opened without a key, so credentials can be neither stored nor read. The remedy depends on
	// whether there are credentials already; the errors that match it explain it.
	ErrNoSecretKey = errors.New("no secret key")
	// ErrWrongSecretKey matches every WrongKeyError in errors.Is.
	ErrWrongSecretKey = errors.New("no secret key opens them")
	// ErrNotOpen: for a store of New, the database has not answered yet, or its schema is not one that this program knows.
	ErrNotOpen = errors.New("the database is not open yet")
)

// wrap adds what was attempted to an error. It must be deferred.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// A WrongKeyError means that no secret key opens stored credentials: they were sealed with another key, or are damaged. It matches
// ErrWrongSecretKey.
type WrongKeyError struct {
	Key keyring.ID // the key that sealed them; zero: unknown, or they are damaged
}

func (e *WrongKeyError) Error() string {
	if e.Key == (keyring.ID{}) {
		return "no secret key opens the stored credentials: set SARA_SECRET_KEY or SARA_SECRET_KEY_PREVIOUS to the key that sealed them, " +
			"or replace them"
	}
	return fmt.Sprintf("the stored credentials are sealed with the secret key %s: set SARA_SECRET_KEY or SARA_SECRET_KEY_PREVIOUS to it, "+
		"or replace them", e.Key)
}

// Is reports whether target is ErrWrongSecretKey.
func (e *WrongKeyError) Is(target error) bool { return target == ErrWrongSecretKey }

// noKeyToSeal returns the ErrNoSecretKey for credentials that are to be stored.
func noKeyToSeal() error {
	return fmt.Errorf("%w: set SARA_SECRET_KEY to 32 random bytes in base64, for example the output of `openssl rand -base64 32`", ErrNoSecretKey)
}

// noKeyToOpen returns the ErrNoSecretKey for credentials that a key has already sealed: a new key would not open them.
func noKeyToOpen(by keyring.ID) error {
	if by == (keyring.ID{}) {
		return fmt.Errorf("%w: set SARA_SECRET_KEY to the key that sealed them, not to a new one", ErrNoSecretKey)
	}
	return fmt.Errorf("%w: set SARA_SECRET_KEY to the key that sealed them, %s, not to a new one", ErrNoSecretKey, by)
}

// An InputError is a value from the caller that is invalid whatever is stored.
type InputError struct {
	Field  string // the name of the value for users, such as "e-mail"
	Reason string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// A ConflictError is a value that is valid but conflicts with what is stored.
type ConflictError struct {
	Field  string // the name of the value for users, such as "workspace"
	Reason string
}

func (e *ConflictError) Error() string { return e.Field + ": " + e.Reason }

// A NotFoundError is an id or a name that does not exist.
type NotFoundError struct {
	Kind      string // such as "workspace"
	Reference string // as the caller wrote it
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.Reference) }

// An AmbiguousError is a name that matches several things, and lists them.
type AmbiguousError struct {
	Kind       string
	Reference  string
	Candidates []Candidate // two or more
}

// A Candidate is one of the things that an ambiguous reference matches.
type Candidate struct {
	ID   string
	Name string // its full name, such as ACCOUNT/WORKSPACE
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, c := range e.Candidates {
		names[i] = fmt.Sprintf("%s (%s)", c.ID, c.Name)
	}
	return fmt.Sprintf("%s %q is ambiguous: use one of the ids %s", e.Kind, e.Reference, strings.Join(names, ", "))
}

// An ExistsError is a name that must be unique and is already in use.
type ExistsError struct {
	Kind string
	Name string
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%s %q already exists", e.Kind, e.Name) }

// A SchemaError means that the database's schema is of a newer version of the program.
type SchemaError struct {
	Current int64 // version of the database's schema
	Known   int64 // the latest version that this program knows
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the database has schema version %d, but this program knows versions only up to %d: "+
		"run the newer program, or restore the backup from before its migration", e.Current, e.Known)
}

// A KeyLimitError means that an account already has as many working keys as its plan allows.
type KeyLimitError struct {
	Account string // the account's name
	Plan    string
	Limit   int
}

func (e *KeyLimitError) Error() string {
	return fmt.Sprintf("account %q is on plan %q, which allows %s: revoke one or change the plan",
		e.Account, e.Plan, english.Plural(e.Limit, "working API key", ""))
}
