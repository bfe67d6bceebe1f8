package gscsim_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"

	"sara/proxy/upstream/gscsim"
)

const readOnly = "https://www.googleapis.com/auth/webmasters.readonly"

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tokenFailure requests a token with a form, and returns the error in the answer.
func (s *simulator) tokenFailure(t *testing.T, path string, form url.Values) (int, string, string) {
	t.Helper()
	response, err := http.PostForm(s.url+path, form)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Error            string
		ErrorDescription string `json:"error_description"`
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body.Error, body.ErrorDescription
}

func TestRefreshTokenAnswersLikeGoogle(t *testing.T) {
	s := start(t, testConfig())
	response, err := http.PostForm(s.url+"/oauth2/v4/token", url.Values{
		"grant_type": {"refresh_token"}, "client_id": {"client"}, "client_secret": {"secret"}, "refresh_token": {"1//owner"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var body map[string]any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	token, _ := body["access_token"].(string)
	if response.StatusCode != 200 || !strings.HasPrefix(token, "ya29.") || body["expires_in"] != 3599.0 || body["scope"] != readOnly ||
		body["token_type"] != "Bearer" || len(body) != 4 {
		t.Errorf("%d %v", response.StatusCode, body)
	}
}

func TestRefreshTokensThatAreRefused(t *testing.T) {
	config := testConfig()
	config.Users[1].Revoked = true
	s := start(t, config)
	for _, c := range []struct {
		id, secret, token  string
		code               int
		error, description string
	}{
		{"other", "secret", "1//owner", 401, "invalid_client", "The OAuth client was not found."},
		{"client", "wrong", "1//owner", 401, "invalid_client", "Unauthorized"},
		{"client", "secret", "1//other", 400, "invalid_grant", "Bad Request"},
		{"client", "secret", "", 400, "invalid_request", "Missing required parameter: refresh_token"},
		{"client", "secret", "1//no-sites", 400, "invalid_grant", "Token has been expired or revoked."},
	} {
		code, kind, description := s.tokenFailure(t, "/token", url.Values{
			"grant_type": {"refresh_token"}, "client_id": {c.id}, "client_secret": {c.secret}, "refresh_token": {c.token},
		})
		if code != c.code || kind != c.error || description != c.description {
			t.Errorf("%+v: %d %s %q", c, code, kind, description)
		}
	}
	if code, kind, _ := s.tokenFailure(t, "/token", url.Values{"grant_type": {"password"}}); code != 400 || kind != "unsupported_grant_type" {
		t.Errorf("another grant: %d %s", code, kind)
	}
}

func TestClientMayAuthenticateInTheHeader(t *testing.T) {
	config := testConfig()
	config.Users[0].ClientID, config.Users[0].ClientSecret = "client:1", "a+b c%"
	s := start(t, config)
	o := oauth2.Config{ClientID: "client:1", ClientSecret: "a+b c%",
		Endpoint: oauth2.Endpoint{TokenURL: s.url + "/token", AuthStyle: oauth2.AuthStyleInHeader}}
	if _, err := o.TokenSource(t.Context(), &oauth2.Token{RefreshToken: "1//owner"}).Token(); err != nil {
		t.Error(err)
	}
}

func TestCredentialFilesSignIn(t *testing.T) {
	key := newKey(t)
	config := testConfig()
	config.TokenNow = time.Now // the libraries sign with the real time
	config.Users = append(config.Users, gscsim.User{
		Email: "robot@gscsim.iam.gserviceaccount.com", PublicKey: &key.PublicKey, Sites: []gscsim.Site{{URL: prefixSite}},
	})
	s := start(t, config)
	service, err := config.Users[2].ServiceAccountJSON(key, s.url+"/token")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := google.JWTConfigFromJSON(service, readOnly)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer.TokenSource(t.Context()).Token(); err != nil {
		t.Fatalf("signing in as a service account: %v", err)
	}
	if code := get(t, signer.Client(t.Context()), s.url+"/webmasters/v3/sites/"+url.QueryEscape(prefixSite)); code != 200 {
		t.Errorf("the service account's own site: %d", code)
	}
	if code := get(t, signer.Client(t.Context()), s.url+"/webmasters/v3/sites/"+url.QueryEscape(domainSite)); code != 403 {
		t.Errorf("another user's site: %d", code)
	}
	authorized, err := config.Users[0].AuthorizedUserJSON()
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]string
	if err := json.Unmarshal(authorized, &file); err != nil || file["type"] != "authorized_user" || file["client_id"] != "client" ||
		file["client_secret"] != "secret" || file["refresh_token"] != "1//owner" {
		t.Errorf("the file of an authorized user is %s, %v", authorized, err)
	}
}

func get(t *testing.T, client *http.Client, address string) int {
	t.Helper()
	response, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

func TestAssertionsThatAreRefused(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	const email = "robot@gscsim.iam.gserviceaccount.com"
	for _, c := range []struct {
		name   string
		error  string
		change func(*gscsim.User, *gscsim.Config, *rsa.PrivateKey) (file gscsim.User, key *rsa.PrivateKey, scope, audience string)
	}{
		{"signed with another key", "Invalid JWT Signature.", func(u *gscsim.User, _ *gscsim.Config, _ *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			return *u, other, readOnly, ""
		}},
		{"an unknown account", "account not found", func(u *gscsim.User, _ *gscsim.Config, k *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			return gscsim.User{Email: "else@gscsim.iam.gserviceaccount.com"}, k, readOnly, ""
		}},
		{"a foreign audience", "Failed audience check", func(u *gscsim.User, _ *gscsim.Config, k *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			return *u, k, readOnly, "https://example.com/token"
		}},
		{"a foreign scope", "invalid_scope", func(u *gscsim.User, _ *gscsim.Config, k *rsa.PrivateKey) (gscsim.User, *rsa.PrivateKey, string, string) {
			return *u, k, "https://www.googleapis.com/auth/drive", ""
		}},
		{"an expired assertion", "reasonable timeframe", func(u *gscsim.User, config *gscsim.Config, k *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			config.TokenNow = func() time.Time { return time.Now().Add(2 * time.Hour) }
			return *u, k, readOnly, ""
		}},
		{"an assertion of the future", "reasonable timeframe", func(u *gscsim.User, config *gscsim.Config, k *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			config.TokenNow = func() time.Time { return time.Now().Add(-2 * time.Hour) }
			return *u, k, readOnly, ""
		}},
		{"a revoked account", "expired or revoked", func(u *gscsim.User, _ *gscsim.Config, k *rsa.PrivateKey) (
			gscsim.User, *rsa.PrivateKey, string, string) {
			u.Revoked = true
			return *u, k, readOnly, ""
		}},
	} {
		config := gscsim.Config{Now: noon, TokenNow: time.Now, Users: []gscsim.User{{Email: email, PublicKey: &key.PublicKey}}}
		user, signKey, scope, audience := c.change(&config.Users[0], &config, key)
		listener := httptest.NewServer(gscsim.New(config))
		file, err := user.ServiceAccountJSON(signKey, listener.URL+"/token")
		if err != nil {
			t.Fatal(err)
		}
		signer, err := google.JWTConfigFromJSON(file, scope)
		if err != nil {
			t.Fatal(err)
		}
		signer.Audience = audience
		var refusal *oauth2.RetrieveError
		if _, err := signer.TokenSource(t.Context()).Token(); !errors.As(err, &refusal) || refusal.Response.StatusCode != 400 ||
			!strings.Contains(string(refusal.Body), c.error) {
			t.Errorf("%s: %v", c.name, err)
		}
		listener.Close()
	}
}

func TestMalformedAssertionsAreRefused(t *testing.T) {
	s := start(t, testConfig())
	// {"alg":"none"}.{}. is unsigned.
	for _, assertion := range []string{"", "a.b", "a.b.c", "eyJhbGciOiJub25lIn0.e30."} {
		code, kind, _ := s.tokenFailure(t, "/token", url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion},
		})
		if code != 400 || kind != "invalid_grant" {
			t.Errorf("%q: %d %s", assertion, code, kind)
		}
	}
}

func TestCallsWithoutAGoodTokenAreUnauthenticated(t *testing.T) {
	now := noon()
	config := testConfig()
	config.TokenNow = func() time.Time { return now }
	s := start(t, config)
	good := s.accessToken(t)
	other := config
	other.Seed++
	foreign := start(t, other).accessToken(t)
	const path = "/webmasters/v3/sites?prettyPrint=false"
	call := func(authorization string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, body := call("Bearer " + good); code != 200 {
		t.Fatalf("a good token: %d %s", code, body)
	}
	for _, authorization := range []string{"", good, "Bearer ", "Bearer ya29.x", "Bearer " + good + "A", "Bearer " + foreign} {
		code, body := call(authorization)
		if code != 401 || !strings.HasPrefix(body, `{"error":{"code":401,"message":"Request had invalid authentication credentials. Expected OAuth 2`) ||
			!strings.HasSuffix(body, `"status":"UNAUTHENTICATED"}}`) {
			t.Errorf("%q: %d %s", authorization, code, body)
		}
	}
	now = now.Add(time.Hour)
	if code, _ := call("Bearer " + good); code != 401 {
		t.Errorf("an expired token: %d", code)
	}
}

func TestRevokedRefreshTokenIsInvalidGrantToTheClient(t *testing.T) {
	config := testConfig()
	config.Users[0].Revoked = true
	s := start(t, config)
	_, err := s.api.Sites.List().Do()
	var refusal *oauth2.RetrieveError
	var answer *googleapi.Error
	if !errors.As(err, &refusal) || refusal.ErrorCode != "invalid_grant" || errors.As(err, &answer) {
		t.Errorf("%v", err)
	}
}
