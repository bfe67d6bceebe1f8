package policy

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

func TestNewKeysAreRandomAndUnique(t *testing.T) {
	form := regexp.MustCompile(`^acme_live_[A-Z2-7]{52}[A-Z2-7]{7}$`)
	keys, hashes := map[string]bool{}, map[Hash]bool{}
	columns := make([]map[byte]bool, 52)
	for i := range columns {
		columns[i] = map[byte]bool{}
	}
	const made = 1000
	for range made {
		key, hash := NewKey("acme")
		if !form.MatchString(key) || hash != hashKey(key) {
			t.Fatalf("key %s with the hash %x", key, hash)
		}
		if got, denial := bearer("Bearer "+key, "acme"); denial != nil || got != key {
			t.Fatalf("%s is not accepted as a key: %v", key, denial)
		}
		keys[key], hashes[hash] = true, true
		for i, c := range []byte(strings.TrimPrefix(key, "acme_live_"))[:secretLength] {
			columns[i][c] = true
		}
	}
	if len(keys) != made || len(hashes) != made {
		t.Errorf("%d keys and %d hashes of %d", len(keys), len(hashes), made)
	}
	for i, seen := range columns {
		if len(seen) != 32 {
			t.Errorf("character %d of the secret has %d of 32 values in %d keys", i, len(seen), made)
		}
	}
}

// Scanners search texts for keys by the form that is documented, so a prefix must not have another one.
func TestKeyPrefix(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"sara": true, "a": true, "0": true, strings.Repeat("z9", 10): true,
		"": false, strings.Repeat("a", 21): false, "Sara": false, "a_b": false, "a b": false, "sara\n": false, "\u00e9": false,
	} {
		if err := CheckKeyPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// Hashes are stored, so they must never change.
func TestHashIsSHA256OfTheWholeKey(t *testing.T) {
	for key, want := range map[string]string{
		"":    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	} {
		if hash := hashKey(key); hex.EncodeToString(hash[:]) != want {
			t.Errorf("%q: %x, want %s", key, hash, want)
		}
	}
	if hashKey("sara_live_A") == hashKey("test_live_A") {
		t.Error("the prefix is not hashed")
	}
}

var keyForm = regexp.MustCompile(`^sara_live_[A-Z2-7]{52}(?:[A-Z2-7]{7})?$`)

// The checksum is part of keys in use, so it must never change.
func TestKeyChecksumIsCRC32InBase32(t *testing.T) {
	for body, want := range map[string]string{
		"":          "AAAAAAA",
		"123456789": "DF7IOJG", // CRC-32 is 0xcbf43926
		"sara_live_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": "DZ4I4QY",
	} {
		if sum := keyChecksum(body); string(sum[:]) != want {
			t.Errorf("%q: %s, want %s", body, sum, want)
		}
	}
}

// A change of any one character of a key with a checksum is noticed without a look-up.
func TestOneWrongCharacterOfAKeyIsNoticed(t *testing.T) {
	key, _ := NewKey("sara")
	if denial := checkKeyForm(key, "sara"); denial != nil {
		t.Fatal(denial)
	}
	for i := len("sara_live_"); i < len(key); i++ {
		for _, c := range keyAlphabet {
			changed := key[:i] + string(c) + key[i+1:]
			if denial := checkKeyForm(changed, "sara"); (denial == nil) != (changed == key) {
				t.Errorf("%s, made of %s: %v", changed, key, denial)
			}
		}
	}
}

// FuzzBearer checks that an accepted key is well-formed, and that no denial quotes the header.
func FuzzBearer(f *testing.F) {
	f.Add("Bearer " + validKeyText)
	f.Add("bearer  " + validKeyText + " \t")
	f.Add("Bearer sara_live_" + strings.Repeat("A", secretLength) + "BBBBBBB")
	f.Add("Bearer \n" + validKeyText) // any white space is trimmed, though HTTP lets no line break through
	f.Add("Basic c2FyYQ==")
	f.Add("Bearer")
	f.Add("")
	f.Fuzz(func(t *testing.T, header string) {
		key, denial := bearer(header, "sara")
		if denial != nil {
			switch {
			case key != "" || denial.Code != CodeInvalidKey:
				t.Errorf("%q: %q, %+v", header, key, denial)
			case denial.Message != noKeyMessage && denial.Message != formMessage && denial.Message != prefixMessage && denial.Message != wholeMessage:
				t.Errorf("%q: %s", header, denial.Message)
			}
			return
		}
		if !strings.HasPrefix(key, "sara_live_") || !keyForm.MatchString(key) || strings.TrimSpace(key) != key || !strings.Contains(header, key) {
			t.Errorf("%q: %q", header, key)
		}
		if again, denial := bearer("Bearer "+key, "sara"); denial != nil || again != key {
			t.Errorf("%q is a key in one header and %q, %v in another", key, again, denial)
		}
	})
}

// The hash of a header is that of the key in it, in any form that bearer accepts; a header without a key has none.
func TestHashKey(t *testing.T) {
	key, hash := NewKey("sara")
	for header, want := range map[string]Hash{
		"Bearer " + key: hash, "bearer  " + key + " ": hash, "Bearer nonsense": hashKey("nonsense"),
		"": {}, "Bearer": {}, "Bearer ": {}, key: {}, "Basic " + key: {}, "Bearer " + strings.Repeat("A", maxKeyLength+1): {},
	} {
		if got := HashKey(header); got != want {
			t.Errorf("the hash of %q is %x, want %x", header, got, want)
		}
		if text, denial := bearer(header, "sara"); denial == nil && hashKey(text) != want {
			t.Errorf("the key in %q is %q", header, text)
		}
	}
}
