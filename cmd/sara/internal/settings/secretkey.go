package settings

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize/english"

	"sara/policy/keyring"
)

// SecretKey is the key that encrypts what is stored.
type SecretKey struct {
	written
	Key []byte // nil: not set
}

// parse never quotes the text, and does not keep it.
func (k *SecretKey) parse(*kong.Tag) (err error) {
	k.Key, err = decodeKey(k.text)
	k.text = ""
	return err
}

// String shows whether there is a key, and its id.
func (k SecretKey) String() string {
	if k.Key == nil {
		return ""
	}
	return describeKeys(k.Key)
}

// SecretKeys are keys, separated by commas.
type SecretKeys struct {
	written
	Keys [][]byte
}

// parse never quotes the text, and does not keep it.
func (k *SecretKeys) parse(*kong.Tag) error {
	texts := strings.Split(k.text, ",")
	k.text = ""
	for i, text := range texts {
		key, err := decodeKey(text)
		if err != nil && len(texts) > 1 {
			err = fmt.Errorf("key %d of %d: %w", i+1, len(texts), err)
		}
		if err != nil {
			return err
		}
		k.Keys = append(k.Keys, key)
	}
	return nil
}

// String shows whether there are keys, and their ids.
func (k SecretKeys) String() string {
	if k.Keys == nil {
		return ""
	}
	return describeKeys(k.Keys[0], k.Keys[1:]...)
}

// describeKeys returns the ids of keys.
func describeKeys(first []byte, more ...[]byte) string {
	ring, err := keyring.New(first, more...)
	if err != nil {
		return "set"
	}
	return "set, id " + strings.Trim(fmt.Sprint(ring.IDs()), "[]")
}

func decodeKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	switch {
	case err != nil:
		return nil, errors.New("it is not base64; use the output of: openssl rand -base64 32")
	case len(key) != keyring.KeySize:
		return nil, fmt.Errorf("it has %s, not %d; use the output of: openssl rand -base64 32", english.Plural(len(key), "byte", ""), keyring.KeySize)
	}
	return key, nil
}

// Keyring returns the keys that encrypt what is stored; nil if there is none.
func (s *Store) Keyring() (*keyring.Keyring, error) {
	switch {
	case s.SecretKey.Key == nil && s.SecretKeyPrevious.Keys == nil:
		return nil, nil
	case s.SecretKey.Key == nil:
		return nil, Errorf("SARA_SECRET_KEY_PREVIOUS", "previous keys only open what is stored: set SARA_SECRET_KEY to the current one")
	}
	ring, err := keyring.New(s.SecretKey.Key, s.SecretKeyPrevious.Keys...)
	if err != nil {
		return nil, Errorf("SARA_SECRET_KEY_PREVIOUS", "%v: name only keys other than SARA_SECRET_KEY, each one once", err)
	}
	return ring, nil
}
