package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"slices"
)

// An envelope is a version byte, the id of the key, the nonce, and the sealed text with its tag.
const (
	version   = 2
	nonceSize = 24
	tagSize   = 16
	head      = 1 + len(ID{}) + nonceSize
	// Overhead is by how many bytes an envelope is longer than what it holds.
	Overhead = head + tagSize
)

// Sealer seals and opens envelopes of one purpose.
type Sealer struct{ keys }

// keys are those that the secret keys derive for one purpose.
type keys struct {
	current ID
	ciphers map[ID]*xaes
}

// AppendSeal appends the envelope of plain to dst. plain and dst must not overlap. The additional data may be nil.
func (s *Sealer) AppendSeal(dst, plain, additional []byte) []byte {
	dst = slices.Grow(dst, len(plain)+Overhead)
	dst = append(dst, version)
	dst = append(dst, s.current[:]...)
	nonce := dst[len(dst) : len(dst)+nonceSize]
	_, _ = rand.Read(nonce) // never fails
	return s.ciphers[s.current].appendSeal(dst[:len(dst)+nonceSize], nonce, plain, additional)
}

// AppendOpen appends what an envelope holds to dst, if it was sealed for this purpose with the same additional data. The error is
// an *UnknownKeyError or ErrNotAuthentic.
func (s *Sealer) AppendOpen(dst, envelope, additional []byte) ([]byte, error) {
	id, ok := KeyOf(envelope)
	if !ok {
		return nil, ErrNotAuthentic
	}
	c := s.ciphers[id]
	if c == nil {
		return nil, &UnknownKeyError{id}
	}
	opened, err := c.appendOpen(dst, envelope[head-nonceSize:head], envelope[head:], additional)
	if err != nil {
		return nil, ErrNotAuthentic
	}
	return opened, nil
}

// KeyOf returns the id of the key that sealed an envelope; ok is false if the bytes are not an envelope that names its key.
func KeyOf(envelope []byte) (id ID, ok bool) {
	if len(envelope) < Overhead || envelope[0] != version {
		return ID{}, false
	}
	return ID(envelope[1:]), true
}

// xaes is XAES-256-GCM: the key of a message is derived from the first half of its nonce by CMAC, and AES-256-GCM uses the second
// half. See https://c2sp.org/XAES-256-GCM.
type xaes struct {
	block  cipher.Block
	subkey [aes.BlockSize]byte // K1 of CMAC
}

func newXAES(key []byte) *xaes {
	x := &xaes{block: newAES(key)}
	x.block.Encrypt(x.subkey[:], x.subkey[:])
	var carry byte
	for i := len(x.subkey) - 1; i >= 0; i-- {
		x.subkey[i], carry = x.subkey[i]<<1|carry, x.subkey[i]>>7
	}
	x.subkey[len(x.subkey)-1] ^= carry * 0b10000111
	return x
}

// message returns the cipher of one message.
func (x *xaes) message(nonce []byte) cipher.AEAD {
	var key [KeySize]byte
	for i := range 2 {
		block := key[i*aes.BlockSize : (i+1)*aes.BlockSize]
		copy(block, []byte{0, byte(i + 1), 'X', 0})
		copy(block[4:], nonce[:nonceSize/2])
		subtle.XORBytes(block, block, x.subkey[:])
		x.block.Encrypt(block, block)
	}
	return newGCM(key[:])
}

func (x *xaes) appendSeal(dst, nonce, plain, additional []byte) []byte {
	return x.message(nonce).Seal(dst, nonce[nonceSize/2:], plain, additional)
}

func (x *xaes) appendOpen(dst, nonce, sealed, additional []byte) ([]byte, error) {
	return x.message(nonce).Open(dst, nonce[nonceSize/2:], sealed, additional)
}
