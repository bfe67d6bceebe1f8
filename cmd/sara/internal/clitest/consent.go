package clitest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"sara/cmd/sara/internal/demo"
)

// A ConsentForm is the form on the consent page, as a browser sends it.
type ConsentForm struct {
	action string
	Fields url.Values
}

// OpenConsent gets the consent page, and fills in its form as the page does: everything is ticked, no button pressed.
func OpenConsent(t *testing.T, address string) ConsentForm {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := html.Parse(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", address, response.Status, err)
	}
	form := ConsentForm{Fields: make(url.Values)}
	for node := range page.Descendants() {
		attributes := make(map[string]string)
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		_, checked := attributes["checked"]
		switch {
		case node.Data == "form":
			action, err := response.Request.URL.Parse(attributes["action"])
			if err != nil {
				t.Fatal(err)
			}
			form.action = action.String()
		case node.Data == "input" && (attributes["type"] == "hidden" || checked):
			form.Fields.Add(attributes["name"], attributes["value"])
		}
	}
	return form
}

// Submit presses a button, follows the browser back, and returns the page that it ends at.
func (f ConsentForm) Submit(t *testing.T, button string) (status int, page string) {
	t.Helper()
	fields := maps.Clone(f.Fields)
	fields.Set("answer", button)
	response, err := http.PostForm(f.action, fields)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// As answers for another account.
func (f ConsentForm) As(account string) ConsentForm {
	f.Fields.Set("account", account)
	return f
}

var consentAddress = regexp.MustCompile(`(?m)^  (http\S+)$`)

// AddressIn waits until the address of the consent page is printed.
func AddressIn(t *testing.T, printed *Transcript) (address string) {
	t.Helper()
	Poll(t, "the address of the consent page", func() bool {
		m := consentAddress.FindStringSubmatch(printed.String())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return address
}

// IssuedTokens are the codes and tokens that a simulator issues.
type IssuedTokens struct {
	mu     sync.Mutex // guards the following field
	tokens []string
}

// record remembers what the token endpoint answers, and the codes that it exchanges.
func (i *IssuedTokens) record(simulator http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			simulator.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding")
		simulator.ServeHTTP(recorded, r)
		var answer map[string]any
		_ = json.Unmarshal(recorded.Body.Bytes(), &answer) // an answer without tokens has none
		i.mu.Lock()
		for _, name := range []string{"refresh_token", "access_token", "id_token"} {
			if text, ok := answer[name].(string); ok {
				i.tokens = append(i.tokens, text)
			}
		}
		i.tokens = append(i.tokens, r.PostForm["code"]...)
		i.tokens = append(i.tokens, r.PostForm["code_verifier"]...)
		i.mu.Unlock()
		maps.Copy(w.Header(), recorded.Header())
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	})
}

// Secrets returns them by name.
func (i *IssuedTokens) Secrets() map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	secrets := make(map[string]string)
	for n, text := range i.tokens {
		secrets["code or token "+string(rune('a'+n))] = text
	}
	return secrets
}

// NewConsentCLI returns a CLI with a workspace and the file of an OAuth client, and the tokens that its simulator issues.
func NewConsentCLI(t *testing.T, run Run) (*CLI, *demo.Users, *IssuedTokens) {
	t.Helper()
	issued := new(IssuedTokens)
	people, _ := SimulateBehind(t, issued.record)
	c := New(t, run).Against(people)
	c.Write("client.json", string(people.Client.JSON(people.URL)))
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	return c, people, issued
}
