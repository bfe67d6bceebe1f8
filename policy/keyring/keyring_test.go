package keyring

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeySize) }

func ring(t *testing.T, current []byte, previous ...[]byte) *Keyring {
	t.Helper()
	k, err := New(current, previous...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestCurrentKeySealsAndPreviousOpen(t *testing.T) {
	t.Parallel()
	before := ring(t, key(1))
	old := before.Sealer("credentials").AppendSeal([]byte("dst "), []byte("secret"), []byte("id 7"))
	if !bytes.HasPrefix(old, []byte("dst ")) || bytes.Contains(old, []byte("secret")) {
		t.Fatalf("sealed: %q", old)
	}
	old = old[len("dst "):]
	if len(old) != len("secret")+Overhead {
		t.Errorf("the envelope has %d bytes", len(old))
	}

	after := ring(t, key(2), key(1))
	sealer := after.Sealer("credentials")
	if plain, err := sealer.AppendOpen([]byte("dst "), old, []byte("id 7")); err != nil || string(plain) != "dst secret" {
		t.Errorf("a previous key opens %q, %v", plain, err)
	}
	sealed := sealer.AppendSeal(nil, []byte("secret"), nil)
	if id, ok := KeyOf(sealed); !ok || id != after.Current() || id == before.Current() {
		t.Errorf("sealed by %s, %t", id, ok)
	}
	unknown := (*UnknownKeyError)(nil)
	if _, err := before.Sealer("credentials").AppendOpen(nil, sealed, nil); !errors.As(err, &unknown) || unknown.Key != after.Current() {
		t.Errorf("opening without the key: %v", err)
	}
	if ids := after.IDs(); len(ids) != 2 || ids[0] != after.Current() || ids[1] != before.Current() {
		t.Errorf("the ids are %v", ids)
	}
}

func TestEnvelopeOpensOnlyUnalteredInItsPlace(t *testing.T) {
	t.Parallel()
	k := ring(t, key(1))
	sealer := k.Sealer("rows")
	sealed := sealer.AppendSeal(nil, []byte("rows of a tenant"), []byte("tenant a"))
	refused := func(what string, by *Sealer, envelope []byte, additional string) {
		t.Helper()
		if plain, err := by.AppendOpen(nil, envelope, []byte(additional)); err == nil || plain != nil {
			t.Errorf("%s opened: %q", what, plain)
		}
	}
	refused("another tenant's", sealer, sealed, "tenant b")
	refused("another purpose's", k.Sealer("row"), sealed, "tenant a")
	refused("another key's", ring(t, key(2)).Sealer("rows"), sealed, "tenant a")
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		refused(fmt.Sprint("with byte ", i, " altered, it"), sealer, altered, "tenant a")
		refused(fmt.Sprint("the first bytes, ", i, ", "), sealer, sealed[:i], "tenant a")
	}
	if again := sealer.AppendSeal(nil, []byte("rows of a tenant"), []byte("tenant a")); bytes.Equal(again, sealed) {
		t.Error("two envelopes of one text are equal")
	}
}

// Envelopes of the first version, written before there were ids, still open, by whichever key sealed them.
func TestUnnamedEnvelopeOpens(t *testing.T) {
	t.Parallel()
	block, _ := aes.NewCipher(key(1))
	aead, _ := cipher.NewGCM(block)
	nonce := bytes.Repeat([]byte{9}, aead.NonceSize())
	sealed := aead.Seal(append([]byte{UnnamedVersion}, nonce...), nonce, []byte("secret"), []byte("id 7"))

	k := ring(t, key(2), key(1))
	plain, by, err := k.OpenUnnamed(sealed, []byte("id 7"))
	if err != nil || string(plain) != "secret" || by != k.IDs()[1] {
		t.Errorf("opened %q by %s, %v", plain, by, err)
	}
	if _, _, err := k.OpenUnnamed(sealed, []byte("id 8")); !errors.Is(err, ErrNotAuthentic) {
		t.Errorf("in another place: %v", err)
	}
	if _, _, err := ring(t, key(3)).OpenUnnamed(sealed, []byte("id 7")); !errors.Is(err, ErrNotAuthentic) {
		t.Errorf("by another key: %v", err)
	}
	if _, _, err := k.OpenUnnamed([]byte{UnnamedVersion}, nil); !errors.Is(err, ErrNotAuthentic) {
		t.Errorf("one byte: %v", err)
	}
	if _, ok := KeyOf(sealed); ok {
		t.Error("an envelope of the first version names a key")
	}
}

func TestKeysAreCheckedAndNeverShown(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{{nil}, {[]byte("hunter2")}, {key(1), []byte("hunter2")}, {key('h'), key('h')}} {
		_, err := New(keys[0], keys[1:]...)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hhhh") {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	}
	k := ring(t, key(0xAB), key(0xCD))
	want := fmt.Sprintf("secret keys %s %s", k.IDs()[0], k.IDs()[1])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if shown := fmt.Sprintf(verb, k); shown != want {
			t.Errorf("%s shows %q", verb, shown)
		}
	}
}

// The vectors of https://c2sp.org/XAES-256-GCM.
func TestXAESMatchesSpecification(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		key              []byte
		additional, want string
	}{
		{key(1), "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{key(3), "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
		sealed := newXAES(v.key).appendSeal(nil, nonce, []byte("XAES-256-GCM"), []byte(v.additional))
		if got := hex.EncodeToString(sealed); got != v.want {
			t.Errorf("%s, want %s", got, v.want)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	k, err := New(key(1))
	if err != nil {
		b.Fatal(err)
	}
	sealer := k.Sealer("rows")
	for _, size := range []int{100, 8 << 10, 1 << 20} {
		sealed := sealer.AppendSeal(nil, make([]byte, size), []byte("about"))
		dst := make([]byte, 0, size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sealer.AppendOpen(dst, sealed, []byte("about")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
