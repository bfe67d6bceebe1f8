package sqlstore

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// Credentials are encrypted with an AEAD, AES-256-GCM: a version byte, a random nonce, and the sealed text. The connection's id is
// the additional authenticated data, so that credentials cannot be moved to another connection within the database.
const (
	sealVersion   = 1
	secretKeySize = 32
)

// newAEAD returns nil for a nil key.
func newAEAD(key []byte) (cipher.AEAD, error) {
	if key == nil {
		return nil, nil
	}
	if len(key) != secretKeySize {
		return nil, &InputError{"secret key", fmt.Sprintf(
			"it has %d bytes: SARA_SECRET_KEY must be %d bytes in base64, for example the output of `openssl rand -base64 32`",
			len(key), secretKeySize)}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the secret key: %w", err)
	}
	return cipher.NewGCM(block)
}

func (s *Store) seal(connectionID string, plain []byte) ([]byte, error) {
	if s.aead == nil {
		return nil, ErrNoSecretKey
	}
	sealed := make([]byte, 1+s.aead.NonceSize(), 1+s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	sealed[0] = sealVersion
	if _, err := rand.Read(sealed[1:]); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	return s.aead.Seal(sealed, sealed[1:], plain, []byte(connectionID)), nil
}

func (s *Store) unseal(connectionID string, sealed []byte) ([]byte, error) {
	if s.aead == nil {
		return nil, ErrNoSecretKey
	}
	head := 1 + s.aead.NonceSize()
	if len(sealed) < head || sealed[0] != sealVersion {
		return nil, fmt.Errorf("%d stored bytes are not sealed in version %d: %w", len(sealed), sealVersion, ErrWrongSecretKey)
	}
	plain, err := s.aead.Open(nil, sealed[1:head], sealed[head:], []byte(connectionID))
	if err != nil {
		return nil, ErrWrongSecretKey
	}
	return plain, nil
}
