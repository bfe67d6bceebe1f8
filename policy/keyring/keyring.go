// Package keyring encrypts what sara keeps outside its own memory, with the secret keys of its operator.
//
// A Keyring has a current key, which seals, and previous keys, which only open, so that the secret key can change while servers
// run. An envelope names its key by an id that is derived from the key, so that a key that is missing can be named.
//
// A Sealer serves one purpose, such as "credentials". It uses keys that HKDF-SHA256 derives from the secret keys for this purpose,
// so that no other purpose opens its envelopes. The additional data of an envelope are authenticated but not stored: with the id
// of the place in them, an envelope does not open in another place.
//
// The cipher is XAES-256-GCM (C2SP): AES-256-GCM, with a key for each message that is derived from 24 random bytes. Random nonces
// of AES-GCM alone are safe for 2^32 messages of a key, and a busy deployment shares more rows than that in a year.
//
// A StreamSealer does the same for long messages, segment by segment, so that a message need not be in memory twice.
//
// A Keyring, its Sealers and its StreamSealers are safe for concurrent use. Neither errors nor String show a key; the id of a key is not secret.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeySize is the size of a secret key in bytes.
const KeySize = 32

// ID names a secret key, without revealing it.
type ID [4]byte

// String returns the id as eight hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Keyring is a set of secret keys.
type Keyring struct {
	keys []secretKey // the current one first
}

type secretKey struct {
	id    ID
	bytes []byte
}

// New returns the Keyring of a current key and any number of previous ones, each of KeySize random bytes.
func New(current []byte, previous ...[]byte) (*Keyring, error) {
	k := &Keyring{}
	for _, key := range append([][]byte{current}, previous...) {
		if len(key) != KeySize {
			return nil, fmt.Errorf("a secret key has %d bytes, not %d", len(key), KeySize)
		}
		id := ID(derive(key, "sara: id of a secret key", len(ID{})))
		if slices.Contains(k.IDs(), id) {
			return nil, fmt.Errorf("the secret key %s is given twice", id)
		}
		k.keys = append(k.keys, secretKey{id, slices.Clone(key)})
	}
	return k, nil
}

// Current returns the id of the key that seals.
func (k *Keyring) Current() ID { return k.keys[0].id }

// IDs returns the ids of all keys, the current one first.
func (k *Keyring) IDs() []ID {
	ids := make([]ID, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}
	return ids
}

// String shows the ids of the keys.
func (k *Keyring) String() string {
	return "secret keys " + strings.Trim(fmt.Sprint(k.IDs()), "[]")
}

// GoString is String, so that %#v shows no key either.
func (k *Keyring) GoString() string { return k.String() }

// Sealer returns the Sealer of a purpose. It derives keys: callers keep it.
func (k *Keyring) Sealer(purpose string) *Sealer {
	return &Sealer{k.derive("sara: seal " + purpose)}
}

func (k *Keyring) derive(info string) keys {
	derived := keys{current: k.Current(), ciphers: make(map[ID]*xaes, len(k.keys))}
	for _, key := range k.keys {
		derived.ciphers[key.id] = newXAES(derive(key.bytes, info, KeySize))
	}
	return derived
}

// UnnamedVersion is the first byte of an envelope from before envelopes named their key.
const UnnamedVersion = 1

// OpenUnnamed opens an envelope of UnnamedVersion by trying all keys, and returns which one opened it. The bytes after the version
// are the nonce and the sealed text of AES-256-GCM with the secret key itself.
func (k *Keyring) OpenUnnamed(envelope, additional []byte) (plain []byte, by ID, err error) {
	for _, key := range k.keys {
		aead := newGCM(key.bytes)
		head := 1 + aead.NonceSize()
		if len(envelope) < head || envelope[0] != UnnamedVersion {
			return nil, ID{}, ErrNotAuthentic
		}
		plain, err := aead.Open(nil, envelope[1:head], envelope[head:], additional)
		if err == nil {
			return plain, key.id, nil
		}
	}
	return nil, ID{}, ErrNotAuthentic
}

// ErrNotAuthentic: the bytes are not an envelope, were altered, or were sealed for another purpose or with other additional data.
var ErrNotAuthentic = errors.New("the sealed bytes are damaged, or belong elsewhere")

// An UnknownKeyError is an envelope whose key is not in the Keyring.
type UnknownKeyError struct{ Key ID }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("it is sealed with the secret key %s, which is not set", e.Key)
}

func derive(key []byte, info string, size int) []byte {
	derived, err := hkdf.Key(sha256.New, key, nil, info, size)
	if err != nil {
		panic(fmt.Sprintf("BUG: derive %d bytes: %v", size, err))
	}
	return derived
}

func newAES(key []byte) cipher.Block {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(fmt.Sprintf("BUG: %v", err)) // of the key's size
	}
	return block
}

func newGCM(key []byte) cipher.AEAD {
	aead, err := cipher.NewGCM(newAES(key))
	if err != nil {
		panic(fmt.Sprintf("BUG: %v", err)) // of the block's size
	}
	return aead
}
