package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Evidence is what sara has written anywhere, by place, to be searched for secrets once all of them are known.
type evidence map[string][]byte

func (e evidence) add(place, text string) { e[place] = append(e[place], text+"\n"...) }

// addFiles adds all files below a folder.
func (e evidence) addFiles(t *testing.T, place, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		e.add(place, path+"\n"+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leaks returns the places that show a secret, as it is or encoded. The secrets are by name.
func (e evidence) leaks(secrets map[string]string) (found []string) {
	for name, secret := range secrets {
		for form, encoded := range formsOf(secret) {
			for place, text := range e {
				if at := bytes.Index(text, []byte(encoded)); at >= 0 {
					found = append(found, place+" has "+name+", "+form+": ..."+string(text[max(0, at-100):at])+"...")
				}
			}
		}
	}
	return found
}

// formsOf returns a secret in all forms that programs write it in, by the name of the form.
func formsOf(secret string) map[string]string {
	const whole, bits = 8, 6 // of a byte, and of a digit in base64
	digits := hex.EncodeToString([]byte(secret))
	forms := map[string]string{"in clear": secret, "in hex": digits, "in HEX": strings.ToUpper(digits),
		"escaped for a query": url.QueryEscape(secret), "escaped for a path": url.PathEscape(secret)}
	for _, offset := range []string{"", "1", "22"} { // what stands before it decides on its digits in base64
		first, end := (len(offset)*whole+bits-1)/bits, (len(offset)+len(secret))*whole/bits
		forms["in base64 after "+offset] = base64.RawStdEncoding.EncodeToString([]byte(offset + secret))[first:end]
		forms["in URL base64 after "+offset] = base64.RawURLEncoding.EncodeToString([]byte(offset + secret))[first:end]
	}
	return forms
}

func TestEvidenceShowsSecretsInAnyForm(t *testing.T) {
	const secret = "mark/of+the?key"
	for _, text := range []string{"a " + secret + " b", "%x " + hex.EncodeToString([]byte("a"+secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"key=" + url.QueryEscape(secret), "/" + url.PathEscape(secret), "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte("user:" + secret + "!"))} {
		e := make(evidence)
		e.add("log", text)
		if leaks := e.leaks(map[string]string{"the key": secret}); len(leaks) == 0 {
			t.Errorf("%q is not found in %q", secret, text)
		}
	}
	e := make(evidence)
	e.add("log", "mark of the key")
	if leaks := e.leaks(map[string]string{"the key": secret}); len(leaks) != 0 {
		t.Errorf("found in nothing: %v", leaks)
	}
}
