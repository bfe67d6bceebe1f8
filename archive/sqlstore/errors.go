package sqlstore

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotFound is what every NotFoundError is.
	ErrNotFound = errors.New("not found")
	// ErrNoSecretKey says that credentials cannot be stored or read because the store was opened without a key.
	ErrNoSecretKey = errors.New("no secret key: set SARA_SECRET_KEY to 32 random bytes in base64, " +
		"for example the output of `openssl rand -base64 32`")
	// ErrWrongSecretKey says that stored credentials were encrypted under another key, or were damaged.
	ErrWrongSecretKey = errors.New("the secret key does not open them: " +
		"set SARA_SECRET_KEY to the key they were stored under, or replace the connection's credentials")
)

// An InputError says what is wrong with a value that the caller gave.
type InputError struct {
	Field  string // the name people know the value by, such as "e-mail"
	Reason string
}

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// A NotFoundError says that nothing has this id or name. It is ErrNotFound.
type NotFoundError struct {
	Kind      string // such as "workspace"
	Reference string // as the caller wrote it
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.Reference) }

// Is reports whether target is ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// An AmbiguousError says that a name fits more than one thing, and lists them.
type AmbiguousError struct {
	Kind       string
	Reference  string
	Candidates []Candidate // two or more
}

// A Candidate is one of the things that an ambiguous reference may mean.
type Candidate struct {
	ID   string
	Name string // its full name, such as ACCOUNT/WORKSPACE
}

func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, c := range e.Candidates {
		names[i] = fmt.Sprintf("%s (%s)", c.ID, c.Name)
	}
	return fmt.Sprintf("%s %q is ambiguous, name one by its id: %s", e.Kind, e.Reference, strings.Join(names, ", "))
}

// An ExistsError says that a name that has to be unique is taken.
type ExistsError struct {
	Kind string
	Name string
}

func (e *ExistsError) Error() string { return fmt.Sprintf("%s %q exists already", e.Kind, e.Name) }

// A SchemaError says that a newer version of the program has changed the schema of the database.
type SchemaError struct {
	Current int64 // version of the database's schema
	Known   int64 // the last that this program knows
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the schema of the database is of version %d, and this program knows none after %d: "+
		"run the newer program, or restore the backup from before it", e.Current, e.Known)
}

// A KeyLimitError says that the account has as many working keys as its plan allows.
type KeyLimitError struct {
	Account string // the account's name
	Plan    string
	Limit   int
}

func (e *KeyLimitError) Error() string {
	return fmt.Sprintf("account %q is on plan %q, which allows %d working API keys: revoke one or change the plan",
		e.Account, e.Plan, e.Limit)
}
