package upstream

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"

	"sara/policy/breaker"
	"sara/policy/panics"
)

// request makes one request to the token endpoint, if its circuit breaker admits it. The credentials are dropped when it returns.
func (t *tokens) request(ctx context.Context, acct Account) (token *oauth2.Token, err error) {
	defer panics.Recover(&err)
	data, err := t.credentials(ctx, acct)
	if err != nil {
		return nil, &CredentialsError{acct.ID, err}
	}
	file, err := parseCredentials(data, t.url)
	if err != nil {
		return nil, &Error{Kind: Misconfigured, Message: err.Error()}
	}
	b := t.breaker(file)
	if wait := b.Admit(); wait > 0 {
		t.metrics.token.refused.Inc()
		return nil, openError("the token endpoint", wholeSeconds(wait))
	}
	if token, err = t.send(ctx, file); resultOf(err) == failure {
		b.Failed(err)
	} else {
		b.Succeeded()
	}
	return token, err
}

func (t *tokens) credentials(ctx context.Context, acct Account) ([]byte, error) {
	if acct.Credentials != nil {
		return acct.Credentials(ctx)
	}
	return t.connections.Credentials(ctx, acct.ID)
}

// breaker finds or makes the circuit breaker of the endpoint that serves the credentials. It counts attempts; a failed
// call makes maxAttempts of them.
func (t *tokens) breaker(file credentials) *breaker.Breaker {
	endpoint := t.url
	if file.kind == ServiceAccount {
		endpoint = file.tokenURI
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.breakers[endpoint]
	if b == nil {
		b = &breaker.Breaker{Threshold: failuresToOpen * maxAttempts, Pause: openTime, Now: t.now, OnChange: t.metrics.token.note}
		t.breakers[endpoint] = b
	}
	return b
}

// send returns a token or an *Error.
func (t *tokens) send(ctx context.Context, file credentials) (*oauth2.Token, error) {
	token, err := t.source(ctx, file).Token()
	secrets := []string{file.clientSecret, file.refreshToken, file.privateKey}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, classifyToken(errorReply{
			status:     refused.Response.StatusCode,
			retryAfter: refused.Response.Header.Get("Retry-After"),
			body:       refused.Body,
		}, t.now(), secrets...)
	}
	if err != nil {
		return nil, unreachable("asking for an access token: "+err.Error(), secrets...)
	}
	if token.AccessToken == "" {
		return nil, unreachable("the token endpoint answered without an access token")
	}
	return token, nil
}

func (t *tokens) source(ctx context.Context, file credentials) oauth2.TokenSource {
	client := t.through(underContext{ctx, boundedBody{t.httpClient.Transport, maxErrorBody}})
	ctx = context.WithValue(ctx, oauth2.HTTPClient, client)
	if file.kind == ServiceAccount {
		return (&jwt.Config{
			Email:        file.clientEmail,
			PrivateKey:   []byte(file.privateKey),
			PrivateKeyID: file.privateKeyID,
			Scopes:       []string{scope},
			TokenURL:     file.tokenURI,
		}).TokenSource(ctx)
	}
	return (&oauth2.Config{
		ClientID:     file.clientID,
		ClientSecret: file.clientSecret,
		Endpoint:     oauth2.Endpoint{TokenURL: t.url, AuthStyle: oauth2.AuthStyleInParams},
	}).TokenSource(ctx, &oauth2.Token{RefreshToken: file.refreshToken})
}

// underContext sends requests under ctx, which the library does not pass on in the signed-assertion flow.
type underContext struct {
	ctx  context.Context
	next http.RoundTripper
}

func (u underContext) RoundTrip(req *http.Request) (*http.Response, error) {
	return u.next.RoundTrip(req.WithContext(u.ctx))
}
