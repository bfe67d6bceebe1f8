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

// Site is a property that a connection can see.
type Site struct {
	URL        string // as Search Console writes it: sc-domain:example.com or https://www.example.com/
	Permission string // siteOwner, siteFullUser, siteRestrictedUser or siteUnverifiedUser (which reads no data)
}

// Sites lists every property of the account, in the upstream's order and unfiltered; none is an empty list.
func (c *Client) Sites(ctx context.Context, acct Account) ([]Site, error) {
	var sites []Site
	err := c.call(ctx, acct, func(ctx context.Context, access string) (err error) {
		sites, err = c.listSites(ctx, access)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sites, nil
}

func (c *Client) listSites(ctx context.Context, access string) ([]Site, error) {
	// The generated client ignores option.WithTokenSource beside WithHTTPClient, so the token rides in the transport.
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: access})
	client := &http.Client{
		Transport:     &oauth2.Transport{Source: token, Base: c.tokens.client.Transport},
		CheckRedirect: c.tokens.client.CheckRedirect, // that transport would show the token to any redirect's target
	}
	service, err := searchconsole.NewService(ctx, option.WithHTTPClient(client), option.WithEndpoint(c.wire.base+"/"))
	if err != nil {
		return nil, &Error{Kind: Misconfigured, Message: clean(err.Error(), access)}
	}
	service.UserAgent = userAgent
	list, err := service.Sites.List().Context(ctx).Do()
	if err != nil {
		return nil, c.sitesFailure(err, access)
	}
	sites := make([]Site, 0, len(list.SiteEntry))
	for _, site := range list.SiteEntry {
		sites = append(sites, Site{URL: site.SiteUrl, Permission: site.PermissionLevel})
	}
	return sites, nil
}

func (c *Client) sitesFailure(err error, access string) error {
	if refused, ok := errors.AsType[*googleapi.Error](err); ok {
		return classify(answer{
			status:     refused.Code,
			retryAfter: refused.Header.Get("Retry-After"),
			body:       []byte(refused.Body),
		}, c.now(), access)
	}
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return unreachable(err.Error(), access)
}
