package gscsim

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
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

// tokenSigner issues access tokens that carry user and expiry under a signature, so that it stores none.
type tokenSigner struct{ key []byte }

func (t tokenSigner) issue(user int, expiry time.Time) string {
	payload := binary.BigEndian.AppendUint32(nil, uint32(user))
	payload = binary.BigEndian.AppendUint64(payload, uint64(expiry.Unix()))
	return "ya29." + base64.RawURLEncoding.EncodeToString(append(payload, t.sum(payload)...))
}

func (t tokenSigner) open(token string) (user int, expiry time.Time, ok bool) {
	text, found := strings.CutPrefix(token, "ya29.")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !found || err != nil || len(raw) != 12+sha256.Size || !hmac.Equal(raw[12:], t.sum(raw[:12])) {
		return 0, time.Time{}, false
	}
	return int(binary.BigEndian.Uint32(raw)), time.Unix(int64(binary.BigEndian.Uint64(raw[4:])), 0), true
}

func (t tokenSigner) sum(payload []byte) []byte {
	h := hmac.New(sha256.New, t.key)
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
	user, fail := s.grant(w, r)
	if fail == nil && (s.config.Users[user].Revoked || s.control.active().RevokeTokens) {
		fail = invalidGrant(revoked)
	}
	if fail != nil {
		writeJSON(w, r, fail.code, fail)
		return
	}
	writeJSON(w, r, http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope"`
		TokenType   string `json:"token_type"`
	}{s.tokens.issue(user, s.config.TokenNow().Add(tokenLifetime)), int(tokenLifetime/time.Second) - 1, readOnlyScope, "Bearer"})
}

// grant returns the user whom a token request authenticates.
func (s *Server) grant(w http.ResponseWriter, r *http.Request) (int, *tokenError) {
	if r.Method != http.MethodPost {
		return 0, &tokenError{http.StatusMethodNotAllowed, "invalid_request", "The token endpoint takes POST."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return 0, &tokenError{http.StatusBadRequest, "invalid_request", "The request body is not a form."}
	}
	switch kind := r.PostForm.Get("grant_type"); kind {
	case "refresh_token":
		return s.grantRefresh(r)
	case jwtBearer:
		return s.grantAssertion(r)
	default:
		return 0, &tokenError{http.StatusBadRequest, "unsupported_grant_type", "Invalid grant_type: " + kind}
	}
}

func (s *Server) grantRefresh(r *http.Request) (int, *tokenError) {
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749 2.3.1 encodes both as form values
		id, secret = unescape(id), unescape(secret)
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
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
		if u.RefreshToken == r.PostForm.Get("refresh_token") {
			return i, nil
		}
	}
	switch {
	case !known:
		return 0, &tokenError{http.StatusUnauthorized, "invalid_client", "The OAuth client was not found."}
	case !genuine:
		return 0, &tokenError{http.StatusUnauthorized, "invalid_client", "Unauthorized"}
	case r.PostForm.Get("refresh_token") == "":
		return 0, &tokenError{http.StatusBadRequest, "invalid_request", "Missing required parameter: refresh_token"}
	default:
		return 0, invalidGrant("Bad Request")
	}
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
func (s *Server) grantAssertion(r *http.Request) (int, *tokenError) {
	signed, claims, signature, ok := splitAssertion(r.PostForm.Get("assertion"))
	if !ok {
		return 0, invalidGrant("Invalid JWT: The assertion is not an RS256 JWT.")
	}
	user := slices.IndexFunc(s.config.Users, func(u User) bool { return u.PublicKey != nil && u.Email == claims.Issuer })
	if user < 0 {
		return 0, invalidGrant("Invalid grant: account not found")
	}
	digest := sha256.Sum256([]byte(signed))
	if rsa.VerifyPKCS1v15(s.config.Users[user].PublicKey, crypto.SHA256, digest[:], signature) != nil {
		return 0, invalidGrant("Invalid JWT Signature.")
	}
	if !ownAudience(claims.Audience, r.Host) {
		return 0, invalidGrant("Invalid JWT: Failed audience check. The right audience is https://oauth2.googleapis.com/token")
	}
	now, skew := s.config.TokenNow().Unix(), int64(300)
	if claims.Issued > now+skew || claims.Expires < now-skew || claims.Expires-claims.Issued > 3600 || claims.Expires <= claims.Issued {
		return 0, invalidGrant("Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. " +
			"Check your iat and exp values in the JWT claim.")
	}
	scopes := strings.Fields(claims.Scope)
	if !slices.Contains(scopes, readOnlyScope) && !slices.Contains(scopes, fullScope) {
		return 0, &tokenError{http.StatusBadRequest, "invalid_scope", "Invalid OAuth scope or ID token audience provided."}
	}
	return user, nil
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
	user, expiry, ok := s.tokens.open(token)
	if !ok || user >= len(s.config.Users) || !s.config.TokenNow().Before(expiry) || s.control.active().RevokeTokens {
		return nil, unauthenticated()
	}
	return &s.config.Users[user], nil
}
