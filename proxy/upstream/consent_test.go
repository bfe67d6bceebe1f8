package upstream

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const (
	testClientID = "12.apps.googleusercontent.com"
	testCode     = "4/0A-code-of-a-consent"
	testRedirect = "http://127.0.0.1:4711"
)

// clientFile returns the file of an OAuth client, of a type, with the given members changed; an empty one is left out.
func clientFile(kind string, changed map[string]string) map[string]any {
	members := map[string]any{"client_id": testClientID, "client_secret": testClientSecret, "project_id": "acme", "auth_uri": authURL,
		"token_uri": DefaultTokenURL, "redirect_uris": []string{"http://localhost"}}
	for name, value := range changed {
		members[name] = value
		if value == "" {
			delete(members, name)
		}
	}
	return map[string]any{kind: members}
}

func TestParseClientTakesTheFilesOfGoogle(t *testing.T) {
	for name, test := range map[string]struct {
		tokenURL string
		changed  map[string]string
		authURL  string
	}{
		"of today": {DefaultTokenURL, nil, authURL},
		"of earlier years": {DefaultTokenURL, map[string]string{"auth_uri": "https://accounts.google.com/o/oauth2/auth",
			"token_uri": "https://accounts.google.com/o/oauth2/token"}, authURL},
		"of the configuration": {"https://sso.example.com/token", map[string]string{"auth_uri": "https://sso.example.com/consent",
			"token_uri": "https://sso.example.com/token"}, "https://sso.example.com/consent"},
	} {
		c, err := ParseClient(marshal(t, clientFile("installed", test.changed)), test.tokenURL)
		if err != nil || c.ID != testClientID || c.Project != "acme" || c.secret != testClientSecret || c.authURL != test.authURL {
			t.Errorf("%s: %#v, %v", name, c, err)
		}
		if text := fmt.Sprintf("%v %+v %s", c, c, c); strings.Contains(text, testClientSecret) {
			t.Errorf("%s: it prints its secret: %s", name, text)
		}
	}
}

func TestParseClientErrorsNameTheMemberAndNoValue(t *testing.T) {
	f := func(file any, tokenURL, want string) {
		t.Helper()
		_, err := ParseClient(marshal(t, file), tokenURL)
		if err == nil || !strings.HasPrefix(err.Error(), "client file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		for _, value := range []string{testClientSecret, testClientID, "evil", testRefreshToken} {
			if err != nil && strings.Contains(err.Error(), value) {
				t.Errorf("%q holds the value %q", err, value)
			}
		}
	}
	installed := func(name, value string) any { return clientFile("installed", map[string]string{name: value}) }
	f([]string{"evil"}, DefaultTokenURL, "not a JSON object")
	f(map[string]any{"installed": "evil"}, DefaultTokenURL, "not a JSON object")
	f(map[string]any{"x": "evil"}, DefaultTokenURL, `"installed" is missing`)
	f(clientFile("web", nil), DefaultTokenURL, `"Web application"`)
	f(authorizedUser(), DefaultTokenURL, "type authorized_user: store them with sara connection add")
	f(installed("client_id", ""), DefaultTokenURL, `"client_id"`)
	f(installed("client_secret", ""), DefaultTokenURL, "add a new secret to the client")
	f(installed("auth_uri", ""), DefaultTokenURL, `"auth_uri"`)
	for _, other := range []string{"https://evil.example/auth", "http://accounts.google.com/o/oauth2/v2/auth",
		"https://accounts.google.com@evil.example/auth", "//oauth2.googleapis.com"} {
		f(installed("auth_uri", other), DefaultTokenURL, `"auth_uri" is not Google's consent page`)
		f(installed("token_uri", other), DefaultTokenURL, `"token_uri" is not Google's token endpoint`)
	}
	f(installed("auth_uri", "http://sso.example.com/evil"), "https://sso.example.com/token", `"auth_uri" is not Google's consent page`)
	f(installed("auth_uri", "https://oauth2.googleapis.com/evil"), DefaultTokenURL, `"auth_uri" is not Google's consent page`)
}

// testConsent returns an attempt whose codes the token endpoint of g exchanges.
func testConsent(t *testing.T, g *google) *Consent {
	t.Helper()
	c, err := ParseClient(marshal(t, clientFile("installed", map[string]string{"auth_uri": g.URL + "/auth", "token_uri": g.URL + "/token"})),
		g.URL+"/token")
	if err != nil {
		t.Fatal(err)
	}
	return c.Consent(testRedirect)
}

func TestConsentAsksForReadOnlyOfflineAccessWithPKCE(t *testing.T) {
	g := newGoogle(t, ok(empty))
	c := testConsent(t, g)
	address, err := url.Parse(c.URL())
	if err != nil || !strings.HasPrefix(c.URL(), g.URL+"/auth?") {
		t.Fatalf("%s, %v", c.URL(), err)
	}
	query := address.Query()
	for name, want := range map[string]string{"client_id": testClientID, "redirect_uri": testRedirect, "response_type": "code", "access_type": "offline",
		"prompt": "consent", "code_challenge_method": "S256", "scope": scope + " openid email", "state": c.state} {
		if query.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, query.Get(name), want)
		}
	}
	if strings.Contains(c.URL(), testClientSecret) || strings.Contains(c.URL(), c.verifier) || len(query.Get("code_challenge")) != 43 {
		t.Errorf("the address is %s", c.URL())
	}
	if other := testConsent(t, g); other.state == c.state || other.verifier == c.verifier || len(c.state) < 22 {
		t.Error("two attempts share a secret, or it is short")
	}
}

func TestCodeIsTakenFromTheAnswerToThisAttemptOnly(t *testing.T) {
	c := testConsent(t, newGoogle(t, ok(empty)))
	for _, test := range []struct{ state, name, value, want string }{
		{c.state, "code", testCode, ""},
		{c.state, "error", "access_denied", "the consent was denied"},
		{c.state, "error", "admin_policy_enforced", "the consent was refused by Google: admin_policy_enforced"},
		{c.state, "x", "y", "the answer has no code"},
		{"", "code", testCode, "the answer belongs to another attempt (its state is not the one that was sent)"},
		{c.state + "x", "code", testCode, "the answer belongs to another attempt (its state is not the one that was sent)"},
		{"x", "error", "access_denied", "the answer belongs to another attempt (its state is not the one that was sent)"},
	} {
		code, err := c.Code(url.Values{"state": {test.state}, test.name: {test.value}})
		if text := fmt.Sprint(err); test.want != "" && (text != test.want || code != "") || test.want == "" && (err != nil || code != testCode) {
			t.Errorf("%+v: %q, %v", test, code, err)
		}
	}
}

// idToken returns an ID token with claims.
func idToken(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(claims)) + ".signature"
}

func TestRedeemReturnsAnAuthorizedUser(t *testing.T) {
	g := newGoogle(t, ok(empty))
	c := testConsent(t, g)
	for _, test := range []struct {
		answer   string
		account  string
		lifetime time.Duration
	}{
		{`"scope":"openid ` + scope + `","id_token":"` + idToken(`{"email":"ann@example.com","email_verified":true}`) + `"`, "ann@example.com", 0},
		{`"id_token":"` + idToken(`{"email":"ann@example.com","email_verified":false}`) + `","refresh_token_expires_in":604799`, "", 604799 * time.Second},
		{`"id_token":"nonsense","refresh_token_expires_in":1e300`, "", maxLifetime},
	} {
		g.token = func(w http.ResponseWriter, r *http.Request) {
			form := r.Body
			text, err := io.ReadAll(form)
			sent, parseErr := url.ParseQuery(string(text))
			if err != nil || parseErr != nil || sent.Get("code") != testCode ||
				sent.Get("code_verifier") != c.verifier || sent.Get("redirect_uri") != testRedirect ||
				sent.Get("client_id") != testClientID || sent.Get("client_secret") != testClientSecret || sent.Get("grant_type") != "authorization_code" {
				t.Errorf("sent %s (%v)", text, err)
			}
			ok(`{"access_token":"access-1","expires_in":3599,"refresh_token":"`+testRefreshToken+`",`+test.answer+`}`)(w, r)
		}
		grant, err := startClient(t, g.config()).tokens.redeem(t.Context(), c, testCode)
		if err != nil || grant.Account != test.account || grant.Lifetime != test.lifetime ||
			gjson.GetBytes(grant.Credentials, "refresh_token").Str != testRefreshToken {
			t.Errorf("%s: %+v, %v", test.answer, grant, err)
		}
		if read, err := ParseCredentials(grant.Credentials, DefaultTokenURL); err != nil || read.Kind != AuthorizedUser {
			t.Errorf("%s: its credentials: %+v, %v", test.answer, read, err)
		}
	}
}

func TestRedeemErrorsExplainAndShowNoSecret(t *testing.T) {
	const token = `"access_token":"access-1","expires_in":3599`
	for _, test := range []struct {
		answer http.HandlerFunc
		want   string
	}{
		{ok(`{` + token + `,"refresh_token":"` + testRefreshToken + `","scope":"openid email"}`), "the consent leaves out Search Console"},
		{ok(`{` + token + `}`), "the answer has no refresh token"},
		{status(400, `{"error":"invalid_grant","error_description":"Bad `+testCode+`"}`), "the consent code was already used or has expired"},
		{status(401, `{"error":"invalid_client","error_description":"Bad `+testClientSecret+`"}`), "does not know the client with this secret"},
		{status(503, `busy `+testCode), "the token endpoint issued no token"},
		{ok(testCode + " is not JSON"), "exchanging the consent code"},
		{drop, "exchanging the consent code"},
	} {
		g := newGoogle(t, ok(empty))
		g.token = test.answer
		c := testConsent(t, g)
		grant, err := startClient(t, g.config()).tokens.redeem(t.Context(), c, testCode)
		if err == nil || !strings.Contains(err.Error(), test.want) || grant.Credentials != nil {
			t.Errorf("got %v, want %q", err, test.want)
			continue
		}
		for _, secret := range []string{testCode, testClientSecret, testRefreshToken, c.verifier} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q shows a secret", err)
			}
		}
	}
}
