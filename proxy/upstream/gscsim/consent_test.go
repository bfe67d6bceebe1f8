package gscsim_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"sara/proxy/upstream/gscsim"
)

const redirect = "http://127.0.0.1:4711/"

func consentConfig() gscsim.Config {
	config := testConfig()
	config.Clients = []gscsim.Client{{ID: "desktop", Secret: "GOCSPX-desktop"}, {ID: "tried", Secret: "GOCSPX-tried", Testing: true}}
	return config
}

// consentForm is what the form of the consent page sends.
func consentForm(changed url.Values) url.Values {
	form := url.Values{"client_id": {"desktop"}, "redirect_uri": {redirect}, "response_type": {"code"}, "state": {"s"},
		"scope": {readOnly + " openid email"}, "code_challenge": {oauth2.S256ChallengeFromVerifier("verifier")}, "code_challenge_method": {"S256"},
		"account": {"owner"}, "granted": {readOnly}, "answer": {"allow"}}
	maps.Copy(form, changed)
	return form
}

// answerConsent submits the form, and returns the parameters that the browser is sent back with.
func (s *simulator) answerConsent(t *testing.T, changed url.Values) url.Values {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.PostForm(s.url+"/o/oauth2/v2/auth", consentForm(changed))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	back, err := response.Location()
	if err != nil || response.StatusCode != http.StatusFound || !strings.HasPrefix(back.String(), redirect+"?") {
		t.Fatalf("%s to %v, %v", response.Status, back, err)
	}
	return back.Query()
}

func exchangeForm(code string, changed url.Values) url.Values {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {"desktop"}, "client_secret": {"GOCSPX-desktop"},
		"redirect_uri": {redirect}, "code_verifier": {"verifier"}}
	maps.Copy(form, changed)
	return form
}

func TestConsentPageShowsAccountsAndScopes(t *testing.T) {
	s := start(t, consentConfig())
	response, err := http.Get(s.url + "/o/oauth2/v2/auth?" + consentForm(nil).Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", response.Status, err)
	}
	for _, want := range []string{`value="owner"`, `value="no-sites"`, `name="granted" value="` + readOnly + `"`,
		`name="state" value="s"`, `value="deny"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
}

func TestConsentRequestsThatGoogleRefuses(t *testing.T) {
	s := start(t, consentConfig())
	for _, test := range []struct{ name, value, want string }{
		{"client_id", "other", "invalid_client"},
		{"redirect_uri", "https://attacker.example/", "redirect_uri_mismatch"},
		{"redirect_uri", "http://127.0.0.1/", "redirect_uri_mismatch"},
		{"response_type", "token", "invalid_request"},
		{"code_challenge_method", "plain", "invalid_request"},
		{"scope", "", "invalid_scope"},
		{"scope", readOnly + " https://www.googleapis.com/auth/drive", "invalid_scope"},
	} {
		response, err := http.PostForm(s.url+"/o/oauth2/v2/auth", consentForm(url.Values{test.name: {test.value}}))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusBadRequest ||
			!strings.Contains(string(page), "Error 400: "+test.want) {
			t.Errorf("%+v: %s %s", test, response.Status, page)
		}
	}
}

func TestConsentIsExchangedForARefreshToken(t *testing.T) {
	config := consentConfig()
	s := start(t, config)
	answer := s.answerConsent(t, nil)
	if answer.Get("state") != "s" || answer.Get("scope") != readOnly+" openid email" || len(answer.Get("code")) > 256 {
		t.Errorf("the answer is %v", answer)
	}
	file, err := google.ConfigFromJSON(config.Clients[0].JSON(s.url), readOnly)
	if err != nil {
		t.Fatal(err)
	}
	file.RedirectURL = redirect
	token, err := file.Exchange(t.Context(), answer.Get("code"), oauth2.VerifierOption("verifier"))
	if err != nil || !strings.HasPrefix(token.RefreshToken, "1//") || token.Extra("id_token") == nil || len(token.RefreshToken) > 512 {
		t.Fatalf("%+v, %v", token, err)
	}
	if code := get(t, file.Client(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}), s.url+"/webmasters/v3/sites"); code != http.StatusOK {
		t.Errorf("with the refresh token: %d", code)
	}
	if code, kind, _ := s.tokenFailure(t, "/token", exchangeForm(answer.Get("code"), nil)); code != 400 || kind != "invalid_grant" {
		t.Errorf("the code a second time: %d %s", code, kind)
	}
}

func TestDeniedConsentHasNoCode(t *testing.T) {
	s := start(t, consentConfig())
	if answer := s.answerConsent(t, url.Values{"answer": {"deny"}}); answer.Get("error") != "access_denied" || answer.Has("code") ||
		answer.Get("state") != "s" {
		t.Errorf("the answer is %v", answer)
	}
}

func TestScopeThatWasUntickedIsNotGranted(t *testing.T) {
	s := start(t, consentConfig())
	answer := s.answerConsent(t, url.Values{"granted": nil})
	response, err := http.PostForm(s.url+"/token", exchangeForm(answer.Get("code"), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var token oauth2.Token
	if err := json.NewDecoder(response.Body).Decode(&token); err != nil {
		t.Fatal(err)
	}
	if answer.Get("scope") != "openid email" {
		t.Errorf("granted %q", answer.Get("scope"))
	}
	client := oauth2.NewClient(t.Context(), oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token.AccessToken}))
	if code := get(t, client, s.url+"/webmasters/v3/sites"); code != http.StatusForbidden {
		t.Errorf("the list of sites: %d", code)
	}
}

func TestExchangesThatAreRefused(t *testing.T) {
	now := noon()
	config := consentConfig()
	config.TokenNow = func() time.Time { return now }
	s := start(t, config)
	code := s.answerConsent(t, nil).Get("code")
	for _, test := range []struct {
		name, value string
		code        int
		error       string
	}{
		{"client_id", "other", 401, "invalid_client"},
		{"client_secret", "wrong", 401, "invalid_client"},
		{"code_verifier", "another", 400, "invalid_grant"},
		{"code_verifier", "", 400, "invalid_grant"},
		{"redirect_uri", "http://127.0.0.1:4712/", 400, "invalid_grant"},
		{"code", code + "A", 400, "invalid_grant"},
		{"code", "", 400, "invalid_grant"},
	} {
		if code, kind, _ := s.tokenFailure(t, "/token", exchangeForm(code, url.Values{test.name: {test.value}})); code != test.code || kind != test.error {
			t.Errorf("%+v: %d %s", test, code, kind)
		}
	}
	now = now.Add(10 * time.Minute)
	if code, kind, _ := s.tokenFailure(t, "/token", exchangeForm(code, nil)); code != 400 || kind != "invalid_grant" {
		t.Errorf("after ten minutes: %d %s", code, kind)
	}
}

func TestConsentInTestingEndsAfterSevenDays(t *testing.T) {
	now := noon()
	config := consentConfig()
	config.TokenNow = func() time.Time { return now }
	s := start(t, config)
	client := url.Values{"client_id": {"tried"}, "client_secret": {"GOCSPX-tried"}}
	code := s.answerConsent(t, url.Values{"client_id": {"tried"}}).Get("code")
	response, err := http.PostForm(s.url+"/token", exchangeForm(code, client))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var token oauth2.Token
	if err := json.NewDecoder(response.Body).Decode(&token); err != nil {
		t.Fatal(err)
	}
	refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.RefreshToken}}
	maps.Copy(refresh, client)
	now = now.AddDate(0, 0, 7).Add(-time.Second)
	if again, err := http.PostForm(s.url+"/token", refresh); err != nil || again.StatusCode != http.StatusOK || again.Body.Close() != nil {
		t.Errorf("within seven days: %v, %v", again, err)
	}
	now = now.Add(time.Second)
	if code, kind, _ := s.tokenFailure(t, "/token", refresh); code != 400 || kind != "invalid_grant" {
		t.Errorf("after seven days: %d %s", code, kind)
	}
}

func TestControlReturnsTheClientFile(t *testing.T) {
	s := start(t, consentConfig())
	code, text := s.send(t, http.MethodGet, "/_sim/client.json", "")
	config, err := google.ConfigFromJSON([]byte(text), readOnly)
	if code != http.StatusOK || err != nil || config.ClientID != "desktop" || config.Endpoint.TokenURL != s.url+"/token" ||
		config.Endpoint.AuthURL != s.url+"/o/oauth2/v2/auth" {
		t.Errorf("%d %s, %v", code, text, err)
	}
}
