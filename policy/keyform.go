package policy

import (
	"crypto/rand"
	"fmt"
	"hash/crc32"
	"strings"
	"unsafe"
)

// The form of a key is <prefix>_live_<secret><checksum>, in the alphabet of base32. The secret has 260 bits of randomness. The
// checksum is the CRC-32 of everything before it, so that a key can be recognized without a look-up: by sara, which refuses
// what is not a key at once, and by scanners that search texts for leaked keys. Keys of the first version have no checksum;
// their length tells them apart. Both match
//
//	\b[a-z0-9]{1,20}_live_[A-Z2-7]{52}(?:[A-Z2-7]{7})?\b
const (
	keyInfix       = "_live_"
	keyAlphabet    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	secretLength   = 52
	checksumLength = 7   // 35 bits
	maxKeyLength   = 128 // far more than any key has
)

// CheckKeyPrefix returns an error for a prefix that keys of this form cannot have.
func CheckKeyPrefix(prefix string) error {
	const longest, allowed = 20, "abcdefghijklmnopqrstuvwxyz0123456789"
	if prefix == "" || len(prefix) > longest || strings.Trim(prefix, allowed) != "" {
		return fmt.Errorf("%q is not 1 to %d lower-case letters and digits, such as sara", prefix, longest)
	}
	return nil
}

// NewKey generates a key. Store only its hash, and show the key once, NewKeyDelay after that.
func NewKey(prefix string) (key string, hash Hash) {
	body := prefix + keyInfix + rand.Text() + rand.Text()
	sum := keyChecksum(body)
	key = body + string(sum[:])
	return key, hashKey(key)
}

// keyChecksum returns the CRC-32 (IEEE) of a key's text in base32, most significant digit first.
func keyChecksum(body string) (text [checksumLength]byte) {
	sum := crc32.ChecksumIEEE(unsafe.Slice(unsafe.StringData(body), len(body))) // a conversion would allocate
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = keyAlphabet[sum%uint32(len(keyAlphabet))]
		sum /= uint32(len(keyAlphabet))
	}
	return text
}

// checkKeyForm refuses a text that cannot be a key of this service.
func checkKeyForm(key, prefix string) *Denial {
	secret, found := strings.CutPrefix(key, prefix)
	if found {
		secret, found = strings.CutPrefix(secret, keyInfix)
	}
	if !found {
		return deny(CodeInvalidKey, "this is not a key of this service; its keys begin with %s", prefix+keyInfix)
	}
	whole := len(secret) == secretLength
	if body := len(key) - checksumLength; len(secret) == secretLength+checksumLength {
		sum := keyChecksum(key[:body])
		whole = key[body:] == string(sum[:])
	}
	if !whole || !isBase32(secret) {
		return deny(CodeInvalidKey, "the key is incomplete or altered: copy it again")
	}
	return nil
}

func isBase32(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
