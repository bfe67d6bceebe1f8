package upstream

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// authURL is where Google asks for consent.
const authURL = "https://accounts.google.com/o/oauth2/v2/auth"

// Client is an OAuth client of the type "Desktop app": the registration at Google that people consent to. It holds a secret.
type Client struct {
	ID      string
	Project string // the Google Cloud project; empty if the file does not name it

	secret, authURL string
}

// String returns the client without its secret.
func (c Client) String() string { return c.ID }

// ParseClient reads the file of an OAuth client, as Google issues it. The file may name Google's endpoints or those of the
// configuration: tokenURL, and a consent page on the same host. A file that names others would send the secret to them. Errors
// name the member at fault and the remedy, never a value.
func ParseClient(data []byte, tokenURL string) (Client, error) {
	c, err := parseClient(data, tokenURL)
	if err != nil {
		return Client{}, fmt.Errorf("client file: %w", err)
	}
	return c, nil
}

func parseClient(data []byte, tokenURL string) (c Client, err error) {
	file, err := objectOf(data)
	if err != nil {
		return c, err
	}
	kind, err := stringMember(file, "type")
	switch {
	case err != nil:
		return c, err
	case kind == AuthorizedUser || kind == ServiceAccount:
		return c, fmt.Errorf("it already has credentials, of type %s: store them with sara connection add", kind)
	case file["web"] != nil:
		return c, errors.New(
			`it is of a client of the type "Web application", which cannot be used from a terminal: create a client of the type "Desktop app"`)
	case file["installed"] == nil:
		return c, errors.New(`member "installed" is missing; give the JSON of an OAuth client of the type "Desktop app", unchanged`)
	}
	members, err := objectOf(file["installed"])
	if err != nil {
		return c, err
	}
	if c.Project, err = stringMember(members, "project_id"); err != nil {
		return c, err
	}
	const unchanged = "give the file that Google issued, unchanged"
	var tokenURI string
	if err := readRequired(members,
		member{"client_id", &c.ID, unchanged},
		member{"client_secret", &c.secret, "Google shows it only once: add a new secret to the client, and download its file then"},
		member{"auth_uri", &c.authURL, unchanged},
		member{"token_uri", &tokenURI, unchanged},
	); err != nil {
		return c, err
	}
	if tokenURI != tokenURL && !slices.Contains(googleTokenURLs(), tokenURI) {
		return c, notGoogles("token_uri", "token endpoint", DefaultTokenURL)
	}
	if slices.Contains([]string{authURL, "https://accounts.google.com/o/oauth2/auth"}, c.authURL) {
		c.authURL = authURL
	} else if tokenURL == DefaultTokenURL || !sameHost(c.authURL, tokenURL) {
		return c, notGoogles("auth_uri", "consent page", authURL)
	}
	return c, nil
}

func notGoogles(member, what, address string) error {
	return fmt.Errorf("member %q is not Google's %s, %s; give the file that Google issued, unchanged, or set SARA_OAUTH_TOKEN_URL "+
		"to the endpoint that you trust", member, what, address)
}

func sameHost(a, b string) bool {
	first, err := url.Parse(a)
	second, otherErr := url.Parse(b)
	return err == nil && otherErr == nil && first.Host != "" && first.Host == second.Host && first.Scheme == second.Scheme
}

// A Consent is one attempt to get a person's consent, by the authorization code flow with PKCE.
type Consent struct {
	config   oauth2.Config
	state    string // ties the answer to this attempt
	verifier string // of PKCE: a code is worth nothing without it
}

// Consent returns an attempt whose answer the browser brings to the address redirect.
func (c Client) Consent(redirect string) *Consent {
	return &Consent{
		config: oauth2.Config{
			ClientID: c.ID, ClientSecret: c.secret, RedirectURL: redirect,
			Endpoint: oauth2.Endpoint{AuthURL: c.authURL, AuthStyle: oauth2.AuthStyleInParams},
			Scopes:   []string{scope, "openid", "email"}, // the last two name the account
		},
		state:    rand.Text(),
		verifier: oauth2.GenerateVerifier(),
	}
}

// URL returns the address at which a person consents. It contains no secret. Google issues a refresh token for offline access; after
// the first consent, only if it prompts for consent again.
func (c *Consent) URL() string {
	return c.config.AuthCodeURL(c.state, oauth2.AccessTypeOffline, oauth2.ApprovalForce, oauth2.S256ChallengeOption(c.verifier))
}

// IsAnswer reports whether the parameters of a request are an answer to some consent.
func IsAnswer(parameters url.Values) bool {
	return parameters.Has("state") || parameters.Has("code") || parameters.Has("error")
}

// ErrOtherAttempt is the error of Code for an answer that is not to this consent. It says nothing about this one: any page can send it.
var ErrOtherAttempt = errors.New("the answer belongs to another attempt (its state is not the one that was sent)")

// Code returns the code in the answer that the browser brings.
func (c *Consent) Code(answer url.Values) (string, error) {
	refusal := answer.Get("error")
	switch {
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(c.state)) != 1:
		return "", ErrOtherAttempt
	case refusal == "access_denied":
		return "", errors.New("the consent was denied")
	case refusal != "":
		return "", fmt.Errorf("the consent was refused by Google: %s", clean(refusal))
	case answer.Get("code") == "":
		return "", errors.New("the answer has no code")
	}
	return answer.Get("code"), nil
}

// A Grant is what a person has consented to.
type Grant struct {
	Credentials []byte        // the JSON of an authorized_user, as ParseCredentials reads it
	Account     string        // e-mail address of the Google account; empty if unknown
	Lifetime    time.Duration // until Google ends the consent; 0: no stated end
}

// Redeem exchanges the code of a consent for a refresh token. Its errors contain neither the code nor a secret.
func (g *Gateway) Redeem(ctx context.Context, c *Consent, code string) (Grant, error) {
	return g.client.tokens.redeem(ctx, c, code)
}

func (t *tokens) redeem(ctx context.Context, c *Consent, code string) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	config := c.config
	config.Endpoint.TokenURL = t.url
	client := t.through(boundedBody{t.httpClient.Transport, maxErrorBody})
	token, err := config.Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), code, oauth2.VerifierOption(c.verifier))
	if err != nil {
		return Grant{}, t.redemptionFailure(err, config.ClientSecret, code, c.verifier)
	}
	return grantOf(config, token)
}

// redemptionFailure turns an error of the exchange into an *Error.
func (t *tokens) redemptionFailure(err error, secrets ...string) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return unreachable("exchanging the consent code: "+err.Error(), secrets...)
	}
	e := classifyToken(errorReply{status: refused.Response.StatusCode, retryAfter: refused.Response.Header.Get("Retry-After"), body: refused.Body},
		t.now(), secrets...)
	switch e.Reason {
	case "invalid_grant":
		e.Kind, e.Message = Misconfigured, "the consent code was already used or has expired: connect again"
	case "invalid_client":
		e.Kind, e.Message = Misconfigured, "the token endpoint does not know the client with this secret: download the client file again"
	}
	return e
}

// grantOf checks that a token grants what was requested.
func grantOf(config oauth2.Config, token *oauth2.Token) (Grant, error) {
	if granted, ok := token.Extra("scope").(string); ok { // an answer without it grants what was requested
		if !slices.Contains(strings.Fields(granted), scope) {
			return Grant{}, errors.New("the consent leaves out Search Console: connect again, and tick the access to Search Console data")
		}
	}
	if token.RefreshToken == "" {
		return Grant{}, errors.New("the answer has no refresh token: remove the app's access at myaccount.google.com/connections, and connect again")
	}
	g := Grant{Account: accountOf(token)}
	if seconds, ok := token.Extra("refresh_token_expires_in").(float64); ok && seconds > 0 {
		g.Lifetime = time.Duration(min(seconds, maxLifetime.Seconds())) * time.Second
	}
	var err error
	g.Credentials, err = json.Marshal(struct {
		Type         string `json:"type"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
		Account      string `json:"account,omitempty"`
	}{AuthorizedUser, config.ClientID, config.ClientSecret, token.RefreshToken, g.Account})
	return g, err
}

// maxLifetime bounds the lifetime of a refresh token that an endpoint states.
const maxLifetime = 10 * 365 * 24 * time.Hour

// accountOf returns the verified e-mail address in the ID token; empty if there is none. Its signature need not be verified, because
// it comes from the token endpoint itself (OpenID Connect Core 3.1.3.7).
func accountOf(token *oauth2.Token) string {
	text, _ := token.Extra("id_token").(string)
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	if json.Unmarshal(payload, &claims) != nil || !claims.Verified {
		return ""
	}
	return claims.Email
}
