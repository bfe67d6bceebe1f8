package gscsim

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	readOnlyScope = "https://www.googleapis.com/auth/webmasters.readonly"
	fullScope     = "https://www.googleapis.com/auth/webmasters"
	// tokenLifetime of an access token; the answer reports one second less, as Google's does.
	tokenLifetime = time.Hour
	jwtBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

// tokenSigner issues signed tokens that carry their content, so none is stored.
type tokenSigner struct{ key []byte }

// accessClaims are the content of an access token.
type accessClaims struct {
	User    int   `json:"u"`
	Expires int64 `json:"e"`
	Reads   bool  `json:"r"` // its scopes include Search Console
}

const (
	accessPrefix  = "ya29."
	refreshPrefix = "1//0"
)

func (t tokenSigner) issue(user int, expiry time.Time, reads bool) string {
	return t.sign(accessPrefix, accessClaims{user, expiry.Unix(), reads})
}

// sign returns a token with a prefix that marks its kind.
func (t tokenSigner) sign(prefix string, claims any) string {
	payload := encode(claims)
	return prefix + base64.RawURLEncoding.EncodeToString(append(t.sum(prefix, payload), payload...))
}

// verify reads the content of a token, and reports whether sign made it.
func (t tokenSigner) verify(prefix, token string, claims any) bool {
	text, found := strings.CutPrefix(token, prefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !found || err != nil || len(raw) < sha256.Size || !hmac.Equal(raw[:sha256.Size], t.sum(prefix, raw[sha256.Size:])) {
		return false
	}
	return json.Unmarshal(raw[sha256.Size:], claims) == nil
}

func (t tokenSigner) sum(prefix string, payload []byte) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write([]byte(prefix))
	h.Write(payload)
	return h.Sum(nil)
}

// tokenError is an error answer of the token endpoint.
type tokenError struct {
	code        int
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func invalidGrant(description string) *tokenError {
	return &tokenError{http.StatusBadRequest, "invalid_grant", description}
}

const revoked = "Token has been expired or revoked."

func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	a, fail := s.grant(w, r)
	if fail == nil && (s.config.Users[a.user].Revoked || s.control.active().RevokeTokens) {
		fail = invalidGrant(revoked)
	}
	if fail != nil {
		writeJSON(w, r, fail.code, fail)
		return
	}
	reads := slices.Contains(a.scopes, readOnlyScope) || slices.Contains(a.scopes, fullScope)
	writeJSON(w, r, http.StatusOK, struct {
		AccessToken  string `json:"access_token"`
		ExpiresIn    int    `json:"expires_in"`
		RefreshToken string `json:"refresh_token,omitempty"`
		Scope        string `json:"scope"`
		TokenType    string `json:"token_type"`
		IDToken      string `json:"id_token,omitempty"`
	}{s.tokens.issue(a.user, s.config.TokenNow().Add(tokenLifetime), reads), int(tokenLifetime/time.Second) - 1, a.refresh,
		strings.Join(a.scopes, " "), "Bearer", a.identity})
}

// access is what a token request is granted.
type access struct {
	user     int
	scopes   []string
	refresh  string // a new refresh token; empty: none
	identity string // an ID token; empty: none
}

// readOnlyAccess is the access of credentials in the Config.
func readOnlyAccess(user int) access { return access{user: user, scopes: []string{readOnlyScope}} }

// grant returns the access that a token request is granted.
func (s *Server) grant(w http.ResponseWriter, r *http.Request) (access, *tokenError) {
	if r.Method != http.MethodPost {
		return access{}, &tokenError{http.StatusMethodNotAllowed, "invalid_request", "The token endpoint takes POST."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return access{}, &tokenError{http.StatusBadRequest, "invalid_request", "The request body is not a form."}
	}
	switch kind := r.PostForm.Get("grant_type"); kind {
	case "authorization_code":
		return s.grantCode(r)
	case "refresh_token":
		return s.grantRefresh(r)
	case jwtBearer:
		return s.grantAssertion(r)
	default:
		return access{}, &tokenError{http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: " + kind}
	}
}

// clientOf returns the ID and the secret of the client that sends a token request.
func clientOf(r *http.Request) (id, secret string) {
	if id, secret, basic := r.BasicAuth(); basic { // RFC 6749 2.3.1 encodes both as form values
		return unescape(id), unescape(secret)
	}
	return r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
}

func unknownClient() *tokenError {
	return &tokenError{http.StatusUnauthorized, "invalid_client", "The OAuth client was not found."}
}

func wrongSecret() *tokenError {
	return &tokenError{http.StatusUnauthorized, "invalid_client", "Unauthorized"}
}

func (s *Server) grantRefresh(r *http.Request) (access, *tokenError) {
	id, secret := clientOf(r)
	token := r.PostForm.Get("refresh_token")
	known, genuine := false, false
	for i, u := range s.config.Users {
		if u.RefreshToken == "" || u.ClientID != id {
			continue
		}
		known = true
		if u.ClientSecret != secret {
			continue
		}
		genuine = true
		if u.RefreshToken == token {
			return readOnlyAccess(i), nil
		}
	}
	for _, c := range s.config.Clients {
		known, genuine = known || c.ID == id, genuine || c.ID == id && c.Secret == secret
	}
	var claims refreshClaims
	switch {
	case !known:
		return access{}, unknownClient()
	case !genuine:
		return access{}, wrongSecret()
	case token == "":
		return access{}, &tokenError{http.StatusBadRequest, "invalid_request", "Missing required parameter: refresh_token"}
	case !s.tokens.verify(refreshPrefix, token, &claims) || claims.Client != id || claims.User >= len(s.config.Users):
		return access{}, invalidGrant("Bad Request")
	case claims.Expires != 0 && s.config.TokenNow().Unix() >= claims.Expires:
		return access{}, invalidGrant(revoked)
	}
	return access{user: claims.User, scopes: claims.Scopes}, nil
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

type assertionClaims struct {
	Issuer   string `json:"iss"`
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
	Issued   int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// grantAssertion verifies the signed JWT of a service account.
func (s *Server) grantAssertion(r *http.Request) (access, *tokenError) {
	signed, claims, signature, ok := splitAssertion(r.PostForm.Get("assertion"))
	if !ok {
		return access{}, invalidGrant("Invalid JWT: The assertion is not an RS256 JWT.")
	}
	user := slices.IndexFunc(s.config.Users, func(u User) bool { return u.PublicKey != nil && u.Email == claims.Issuer })
	if user < 0 {
		return access{}, invalidGrant("Invalid grant: account not found")
	}
	digest := sha256.Sum256([]byte(signed))
	if rsa.VerifyPKCS1v15(s.config.Users[user].PublicKey, crypto.SHA256, digest[:], signature) != nil {
		return access{}, invalidGrant("Invalid JWT Signature.")
	}
	if !ownAudience(claims.Audience, r.Host) {
		return access{}, invalidGrant("Invalid JWT: Failed audience check. The right audience is https://oauth2.googleapis.com/token")
	}
	now, skew := s.config.TokenNow().Unix(), int64(300)
	if claims.Issued > now+skew || claims.Expires < now-skew || claims.Expires-claims.Issued > 3600 || claims.Expires <= claims.Issued {
		return access{}, invalidGrant("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. " +
			"Check your iat and exp values in the JWT claim.")
	}
	scopes := strings.Fields(claims.Scope)
	if !slices.Contains(scopes, readOnlyScope) && !slices.Contains(scopes, fullScope) {
		return access{}, &tokenError{http.StatusBadRequest, "invalid_scope", "Invalid OAuth scope or ID token audience provided."}
	}
	return readOnlyAccess(user), nil
}

// splitAssertion splits a compact JWT into its signed part, claims and signature.
func splitAssertion(assertion string) (signed string, claims assertionClaims, signature []byte, ok bool) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return "", claims, nil, false
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	ok = err == nil && decodePart(parts[0], &header) && decodePart(parts[1], &claims) && header.Algorithm == "RS256"
	return parts[0] + "." + parts[1], claims, signature, ok
}

func decodePart(part string, into any) bool {
	text, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, into) == nil
}

// ownAudience accepts this token endpoint, at the host that the client used, and Google's own.
func ownAudience(audience, host string) bool {
	u, err := url.Parse(audience)
	if err != nil || u.Path != "/token" && u.Path != "/oauth2/v4/token" {
		return false
	}
	return u.Host == host || u.Host == "oauth2.googleapis.com" || u.Host == "www.googleapis.com"
}

// authenticate returns the user of a call's access token.
func (s *Server) authenticate(r *http.Request) (*User, *apiError) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return nil, unauthenticated()
	}
	var claims accessClaims
	if !s.tokens.verify(accessPrefix, token, &claims) || claims.User >= len(s.config.Users) ||
		s.config.TokenNow().Unix() >= claims.Expires || s.control.active().RevokeTokens {
		return nil, unauthenticated()
	}
	if !claims.Reads {
		return nil, insufficientScope()
	}
	return &s.config.Users[claims.User], nil
}
