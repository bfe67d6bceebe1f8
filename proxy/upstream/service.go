package upstream

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/searchconsole/v1"
)

// ask runs one call of the cold path, through Google's generated client. It is call in all else.
func (c *Client) ask(ctx context.Context, acct Account, m method, do func(context.Context, *searchconsole.Service) error) error {
	return c.call(ctx, acct, m, func(ctx context.Context, access string) error {
		service, err := c.service(ctx, access)
		if err == nil {
			err = do(ctx, service)
		}
		if err != nil {
			return c.serviceFailure(err, access)
		}
		return nil
	})
}

func (c *Client) service(ctx context.Context, access string) (*searchconsole.Service, error) {
	// The generated client ignores option.WithTokenSource beside WithHTTPClient, so the token rides in the transport.
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: access})
	client := &http.Client{
		Transport:     &oauth2.Transport{Source: token, Base: bounded{c.tokens.client.Transport}},
		CheckRedirect: c.tokens.client.CheckRedirect, // that transport would show the token to any redirect's target
	}
	service, err := searchconsole.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(c.wire.base+"/"))
	if err != nil {
		return nil, &Error{Kind: Misconfigured, Message: clean(err.Error(), access)}
	}
	service.UserAgent = userAgent
	return service, nil
}

// bounded ends decoded bodies with an *http.MaxBytesError after maxReply, since the generated client reads all there is.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxReply)
	return response, nil
}

// serviceFailure translates what the generated client says into an *Error or a context's error.
func (c *Client) serviceFailure(err error, access string) error {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure
	}
	if refused, ok := errors.AsType[*googleapi.Error](err); ok {
		return classify(answer{
			status:     refused.Code,
			retryAfter: refused.Header.Get("Retry-After"),
			body:       []byte(refused.Body),
		}, c.now(), access)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return unreachable(err.Error(), access)
}
