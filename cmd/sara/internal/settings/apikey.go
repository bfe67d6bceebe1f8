package settings

import (
	"errors"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// APIKey is a key of the API.
type APIKey struct {
	written
	key string
}

// parse never quotes the text, and does not keep it.
func (k *APIKey) parse(*kong.Tag) error {
	k.key, k.text = strings.TrimSpace(k.text), ""
	return k.check()
}

func (k *APIKey) check() error {
	if k.key == "" || strings.ContainsFunc(k.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("it is not an API key: take the line that sara key create printed, with nothing before or after it")
	}
	return nil
}

// String shows only whether there is a key.
func (k APIKey) String() string {
	if k.key == "" {
		return ""
	}
	return "set"
}

// ReadFile reads the key from the file that a flag names.
func (k *APIKey) ReadFile(flag, path string) error {
	text, err := readSecret(flag, path)
	if err != nil {
		return err
	}
	k.key = strings.TrimSpace(text)
	if err := k.check(); err != nil {
		return Errorf(flag, "%s: %v", path, err)
	}
	return nil
}

// Secret returns the key, empty if there is none.
func (k *APIKey) Secret() string { return k.key }

// IsReadableByOthers reports whether users other than the owner may read a file.
func IsReadableByOthers(path string) bool {
	const others = 0o077
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&others != 0
}
