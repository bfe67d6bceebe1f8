package upstream

import (
	"context"
	"time"

	"google.golang.org/api/searchconsole/v1"
)

// Sitemap is a sitemap that Search Console knows of a property, as it was when Google last looked.
type Sitemap struct {
	Path             string    // its URL; the file is somebody else's and may be anywhere
	IsIndex          bool      // it names other sitemaps
	IsPending        bool      // it was not processed yet; LastDownloaded may be set all the same
	LastDownloaded   time.Time // UTC; zero: never
	Warnings, Errors int64
}

// Sitemaps lists the submitted sitemaps of site in the upstream's order; none is an empty list. Those that an index names
// are not in it, unless they were submitted too. It needs no more than a restricted user.
func (c *Client) Sitemaps(ctx context.Context, acct Account, site string) ([]Sitemap, error) {
	var sitemaps []Sitemap
	err := c.ask(ctx, acct, sitemapsList, func(ctx context.Context, service *searchconsole.Service) error {
		list, err := service.Sitemaps.List(site).Context(ctx).Do()
		if err != nil {
			return err
		}
		sitemaps = make([]Sitemap, 0, len(list.Sitemap))
		for _, m := range list.Sitemap {
			sitemaps = append(sitemaps, Sitemap{
				Path: m.Path, IsIndex: m.IsSitemapsIndex, IsPending: m.IsPending,
				LastDownloaded: parseTime(m.LastDownloaded), Warnings: m.Warnings, Errors: m.Errors,
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sitemaps, nil
}

// Inspection is what Google's index holds of one address.
type Inspection struct {
	CoverageState string    // the label in English, free text; empty when there is none
	Verdict       string    // PASS, FAIL, NEUTRAL, PARTIAL or VERDICT_UNSPECIFIED; empty when there is none
	LastCrawl     time.Time // UTC; zero: never
	Sitemaps      []string  // that Google found the address in, as far as it tells
}

// language keeps coverage labels in English: they are texts in the language that the request names.
const language = "en-US"

// Inspect asks urlInspection about one address of site; the account must be a full user or an owner of it, and is
// Forbidden otherwise. It looks an indexed version up and fetches nothing, which takes some seconds all the same. Every
// attempt, and so a retry too, counts against the upstream's quota of the site.
func (c *Client) Inspect(ctx context.Context, acct Account, site, address string) (Inspection, error) {
	var inspection Inspection
	err := c.ask(ctx, acct, urlInspection, func(ctx context.Context, service *searchconsole.Service) error {
		answer, err := service.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{
			SiteUrl: site, InspectionUrl: address, LanguageCode: language,
		}).Context(ctx).Do()
		if err != nil {
			return err
		}
		if answer.InspectionResult == nil || answer.InspectionResult.IndexStatusResult == nil {
			return badReply("no index status")
		}
		status := answer.InspectionResult.IndexStatusResult
		inspection = Inspection{
			CoverageState: status.CoverageState, Verdict: status.Verdict,
			LastCrawl: parseTime(status.LastCrawlTime), Sitemaps: status.Sitemap,
		}
		return nil
	})
	return inspection, err
}

// parseTime reads a timestamp of the upstream, which are RFC 3339; one that is absent or unreadable is zero.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}
