package gscsim

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Client is an OAuth client of the type "desktop app". People grant it access on the consent page.
type Client struct {
	ID, Secret string
	// Testing means that the consent screen is external and unpublished: refresh tokens expire after seven days.
	Testing bool
}

const (
	consentPath  = "o/oauth2/v2/auth"
	codePrefix   = "4/0A"
	codeLifetime = 10 * time.Minute
	testingDays  = 7
	openIDScope  = "openid"
	emailScope   = "email"
	allow, deny  = "allow", "deny"
)

// A consentRequest is a valid request to the consent page.
type consentRequest struct {
	client                     Client
	redirect, state, challenge string
	scopes                     []string
}

// serveConsent serves the consent page, and handles its form.
func (s *Server) serveConsent(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil || r.Method != http.MethodGet && r.Method != http.MethodPost {
		writePage(w, http.StatusBadRequest, refusalPage, "invalid_request")
		return
	}
	request, refusal := s.consentRequest(r.Form)
	switch {
	case refusal != "":
		writePage(w, http.StatusBadRequest, refusalPage, refusal)
	case r.Method == http.MethodGet:
		writePage(w, http.StatusOK, consentPage, struct {
			Client   string
			Accounts []string
			Asked    []string
			Fields   url.Values
		}{request.client.ID, s.people(), request.scopes, r.Form})
	default:
		http.Redirect(w, r, s.decide(request, r.PostForm), http.StatusFound)
	}
}

// consentRequest returns what a request asks for, or the error code that Google's page would show.
func (s *Server) consentRequest(form url.Values) (request consentRequest, refusal string) {
	at := slices.IndexFunc(s.config.Clients, func(c Client) bool { return c.ID == form.Get("client_id") })
	if at < 0 {
		return request, "invalid_client"
	}
	request = consentRequest{client: s.config.Clients[at], redirect: form.Get("redirect_uri"), state: form.Get("state"),
		challenge: form.Get("code_challenge"), scopes: strings.Fields(form.Get("scope"))}
	known := []string{readOnlyScope, fullScope, openIDScope, emailScope}
	isUnknown := func(scope string) bool { return !slices.Contains(known, scope) }
	switch {
	case !isLoopback(request.redirect):
		return request, "redirect_uri_mismatch"
	case form.Get("response_type") != "code", request.challenge != "" && form.Get("code_challenge_method") != "S256":
		return request, "invalid_request"
	case len(request.scopes) == 0, slices.ContainsFunc(request.scopes, isUnknown):
		return request, "invalid_scope"
	}
	return request, ""
}

// isLoopback reports whether Google would send a desktop app's browser to the address.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// people returns the accounts that can consent.
func (s *Server) people() (emails []string) {
	for _, u := range s.config.Users {
		if u.PublicKey == nil {
			emails = append(emails, u.Email)
		}
	}
	return emails
}

// decide returns where a submitted form sends the browser.
func (s *Server) decide(request consentRequest, form url.Values) string {
	answer := url.Values{"state": {request.state}}
	user := slices.IndexFunc(s.config.Users, func(u User) bool { return u.PublicKey == nil && u.Email == form.Get("account") })
	if form.Get("answer") != allow || user < 0 {
		answer.Set("error", "access_denied")
		return request.redirect + "?" + answer.Encode()
	}
	var granted []string // the account scopes cannot be unticked
	for _, scope := range request.scopes {
		if scope == openIDScope || scope == emailScope || slices.Contains(form["granted"], scope) {
			granted = append(granted, scope)
		}
	}
	answer.Set("scope", strings.Join(granted, " "))
	answer.Set("code", s.tokens.sign(codePrefix, codeClaims{User: user, Scopes: granted,
		Binding: bind(request.client.ID, request.redirect, request.challenge), Expires: s.config.TokenNow().Add(codeLifetime).Unix()}))
	return request.redirect + "?" + answer.Encode()
}

// codeClaims are the content of a code.
type codeClaims struct {
	User    int      `json:"u"`
	Scopes  []string `json:"s"`
	Binding string   `json:"b"`
	Expires int64    `json:"e"`
}

// bind binds a code to what its exchange must repeat: the client, the redirect address and the PKCE challenge.
func bind(client, redirect, challenge string) string {
	sum := sha256.Sum256([]byte(client + "\n" + redirect + "\n" + challenge))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// refreshClaims are the content of a refresh token.
type refreshClaims struct {
	User    int      `json:"u"`
	Client  string   `json:"c"`
	Scopes  []string `json:"s"`
	Expires int64    `json:"e,omitempty"` // 0: never
}

// grantCode exchanges a code, once.
func (s *Server) grantCode(r *http.Request) (access, *tokenError) {
	id, secret := clientOf(r)
	at := slices.IndexFunc(s.config.Clients, func(c Client) bool { return c.ID == id })
	if at < 0 {
		return access{}, unknownClient()
	}
	client := s.config.Clients[at]
	if client.Secret != secret {
		return access{}, wrongSecret()
	}
	var challenge string
	if verifier := r.PostForm.Get("code_verifier"); verifier != "" {
		sum := sha256.Sum256([]byte(verifier))
		challenge = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	code, now := r.PostForm.Get("code"), s.config.TokenNow()
	var claims codeClaims
	switch ok := s.tokens.verify(codePrefix, code, &claims); {
	case !ok:
		return access{}, invalidGrant("Malformed auth code.")
	case now.Unix() >= claims.Expires, claims.User >= len(s.config.Users):
		return access{}, invalidGrant("Bad Request")
	case subtle.ConstantTimeCompare([]byte(claims.Binding), []byte(bind(id, r.PostForm.Get("redirect_uri"), challenge))) != 1:
		return access{}, invalidGrant("Invalid code verifier.")
	case !s.codes.spend(code, time.Unix(claims.Expires, 0), now):
		return access{}, invalidGrant("Bad Request")
	}
	token := refreshClaims{User: claims.User, Client: id, Scopes: claims.Scopes}
	if client.Testing {
		token.Expires = now.AddDate(0, 0, testingDays).Unix()
	}
	a := access{user: claims.User, scopes: claims.Scopes, refresh: s.tokens.sign(refreshPrefix, token)}
	if slices.Contains(claims.Scopes, openIDScope) {
		a.identity = s.identity(id, claims)
	}
	return a, nil
}

// identity returns the ID token of a consent. It has no signature, because clients get it from the token endpoint itself.
func (s *Server) identity(client string, claims codeClaims) string {
	now := s.config.TokenNow()
	body := struct {
		Issuer   string `json:"iss"`
		Audience string `json:"aud"`
		Subject  string `json:"sub"`
		Email    string `json:"email,omitempty"`
		Verified bool   `json:"email_verified,omitempty"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}{"https://accounts.google.com", client, fmt.Sprintf("1%020d", claims.User), "", false, now.Unix(),
		now.Add(tokenLifetime).Unix()}
	if slices.Contains(claims.Scopes, emailScope) {
		body.Email, body.Verified = s.config.Users[claims.User].Email, true
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(encode(body)) + "."
}

// spentCodes remembers exchanged codes until they expire. The zero value is ready to use.
type spentCodes struct {
	mu    sync.Mutex           // guards the following field
	until map[string]time.Time // expiry, by code
}

// spend marks a code as exchanged, and reports whether it had not been before.
func (c *spentCodes) spend(code string, expires, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, until := range c.until {
		if !now.Before(until) {
			delete(c.until, other)
		}
	}
	if _, spent := c.until[code]; spent {
		return false
	}
	if c.until == nil {
		c.until = make(map[string]time.Time)
	}
	c.until[code] = expires
	return true
}

// JSON returns the file of the client, in Google's format. base is the URL of the simulator.
func (c Client) JSON(base string) []byte {
	type installed struct {
		ClientID     string   `json:"client_id"`
		ProjectID    string   `json:"project_id"`
		AuthURI      string   `json:"auth_uri"`
		TokenURI     string   `json:"token_uri"`
		ClientSecret string   `json:"client_secret"`
		RedirectURIs []string `json:"redirect_uris"`
	}
	return encode(struct {
		Installed installed `json:"installed"`
	}{installed{c.ID, "gscsim", base + "/" + consentPath, base + "/token", c.Secret, []string{"http://localhost"}}})
}

func writePage(w http.ResponseWriter, code int, text string, data any) {
	page := template.Must(template.New("").Parse(text))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = page.Execute(w, data) // a disconnected client is not an error
}

const (
	refusalPage = `<!doctype html>
<html lang="en"><title>Access blocked</title>
<h1>Access blocked: authorisation error</h1>
<p>Error 400: {{.}}</p>
</html>
`
	consentPage = `<!doctype html>
<html lang="en"><title>Simulated consent</title>
<h1>{{.Client}} wants access to your (simulated) Google account</h1>
<form method="post" action="/o/oauth2/v2/auth">
{{range $name, $values := .Fields}}{{range $values}}<input type="hidden" name="{{$name}}" value="{{.}}">
{{end}}{{end}}<fieldset><legend>Account</legend>
{{range $i, $email := .Accounts}}<p><label><input type="radio" name="account" value="{{$email}}"{{if eq $i 0}} checked{{end}}> {{$email}}</label></p>
{{end}}</fieldset>
<fieldset><legend>What it may do</legend>
{{range .Asked}}<p><label><input type="checkbox" name="granted" value="{{.}}" checked> {{.}}</label></p>
{{end}}</fieldset>
<p><button name="answer" value="allow">Continue</button> <button name="answer" value="deny">Cancel</button></p>
</form>
</html>
`
)
