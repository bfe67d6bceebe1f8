package clitest

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/cmd/sara/internal/demo"
)

// Evidence is what sara has written anywhere, by place, to be searched for secrets once all of them are known.
type Evidence map[string][]byte

// Add adds what was written at a place.
func (e Evidence) Add(place, text string) { e[place] = append(e[place], text+"\n"...) }

// AddFiles adds all files below a folder.
func (e Evidence) AddFiles(t *testing.T, place, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		e.Add(place, path+"\n"+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Leaks returns the places that show a secret, as it is or encoded. The secrets are by name.
func (e Evidence) Leaks(secrets map[string]string) (found []string) {
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

// KeptSecrets checks that no secret was printed or stored in plain text.
func (c *CLI) KeptSecrets(people *demo.Users) {
	c.T.Helper()
	stored := new(bytes.Buffer)
	files, err := filepath.Glob(c.Path("sara.db*"))
	if err != nil || len(files) == 0 {
		c.T.Fatalf("there is no database file: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.T.Fatal(err)
		}
		stored.Write(text)
	}
	for name, secret := range SecretsOf(c.T, people) {
		if strings.Contains(c.Said.String(), secret) {
			c.T.Errorf("%s was printed", name)
		}
		if bytes.Contains(stored.Bytes(), []byte(secret)) {
			c.T.Errorf("%s is in the database in clear", name)
		}
	}
}

// SecretsOf returns the secrets in credentials, by name.
func SecretsOf(t *testing.T, people *demo.Users) map[string]string {
	t.Helper()
	secrets := map[string]string{"the secret key": SecretKey}
	if people.Client.Secret != "" {
		secrets["the secret of the OAuth client"] = people.Client.Secret
	}
	for name, text := range people.Credentials {
		var file struct {
			PrivateKey   string `json:"private_key"`
			ClientSecret string `json:"client_secret"`
			RefreshToken string `json:"refresh_token"`
		}
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		if file.PrivateKey != "" {
			secrets["the private key of "+name] = strings.Split(file.PrivateKey, "\n")[1]
			continue
		}
		secrets["the client secret of "+name] = file.ClientSecret
		secrets["the refresh token of "+name] = file.RefreshToken
	}
	return secrets
}
