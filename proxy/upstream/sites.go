package upstream

import (
	"context"

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
	err := c.ask(ctx, acct, sitesList, func(ctx context.Context, service *searchconsole.Service) error {
		list, err := service.Sites.List().Context(ctx).Do()
		if err != nil {
			return err
		}
		sites = make([]Site, 0, len(list.SiteEntry))
		for _, site := range list.SiteEntry {
			sites = append(sites, Site{URL: site.SiteUrl, Permission: site.PermissionLevel})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sites, nil
}
