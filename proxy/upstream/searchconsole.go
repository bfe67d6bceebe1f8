package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

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

func (c *client) sites(ctx context.Context, acct Account) ([]Site, error) {
	done, err := c.admit(ctx, c.analytics, acct, "", nil)
	if err != nil {
		return nil, err
	}
	var sites []Site
	err = c.generated(ctx, acct, sitesList, done, func(ctx context.Context, service *searchconsole.Service) error {
		list, err := service.Sites.List().Context(ctx).Do()
		switch {
		case err != nil:
			return err
		case list == nil || list.HTTPStatusCode != http.StatusOK || slices.Contains(list.SiteEntry, nil):
			return badReply("a malformed list of sites")
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

// Sitemap is a sitemap of a property that Search Console knows, as of Google's last visit.
type Sitemap struct {
	Path             string    // its URL; the file may be on any host
	IsPending        bool      // not processed yet; LastDownloaded may be set anyway
	LastDownloaded   time.Time // UTC; zero: never
	Warnings, Errors int64
}

func (c *client) sitemaps(ctx context.Context, acct Account, site string) ([]Sitemap, error) {
	done, err := c.admit(ctx, c.indexing, acct, site, nil)
	if err != nil {
		return nil, err
	}
	var sitemaps []Sitemap
	err = c.generated(ctx, acct, sitemapsList, done, func(ctx context.Context, service *searchconsole.Service) error {
		list, err := service.Sitemaps.List(site).Context(ctx).Do()
		switch {
		case err != nil:
			return err
		case list == nil || list.HTTPStatusCode != http.StatusOK || slices.Contains(list.Sitemap, nil):
			return badReply("a malformed list of sitemaps")
		}
		sitemaps = make([]Sitemap, 0, len(list.Sitemap))
		for _, m := range list.Sitemap {
			sitemaps = append(sitemaps, Sitemap{
				Path: m.Path, IsPending: m.IsPending,
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

// Inspection is the state of one URL in Google's index.
type Inspection struct {
	CoverageState string    // the label in English, free text; empty when there is none
	Verdict       string    // PASS, FAIL, NEUTRAL, PARTIAL or VERDICT_UNSPECIFIED; empty when there is none
	LastCrawl     time.Time // UTC; zero: never
}

// inspectionLanguage keeps coverage labels in English: they come in the language of the request.
const inspectionLanguage = "en-US"

func (c *client) inspect(ctx context.Context, acct Account, site, url string, charge func(context.Context) error) (Inspection, error) {
	done, err := c.admit(ctx, c.indexing, acct, site, charge)
	if err != nil {
		return Inspection{}, err
	}
	var inspection Inspection
	err = c.generated(ctx, acct, urlInspection, done, func(ctx context.Context, service *searchconsole.Service) error {
		reply, err := service.UrlInspection.Index.Inspect(&searchconsole.InspectUrlIndexRequest{
			SiteUrl: site, InspectionUrl: url, LanguageCode: inspectionLanguage,
		}).Context(ctx).Do()
		if err != nil {
			return err
		}
		if reply == nil || reply.InspectionResult == nil || reply.InspectionResult.IndexStatusResult == nil {
			return badReply("no index status")
		}
		status := reply.InspectionResult.IndexStatusResult
		inspection = Inspection{
			CoverageState: status.CoverageState, Verdict: status.Verdict,
			LastCrawl: parseTime(status.LastCrawlTime),
		}
		return nil
	})
	return inspection, err
}

// parseTime reads a timestamp of the upstream, RFC 3339; an absent or malformed one is zero.
func parseTime(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// generated runs one admitted call through Google's generated client. Every call except the query does, because these
// are rare.
func (c *client) generated(ctx context.Context, acct Account, m method, done func(result),
	do func(context.Context, *searchconsole.Service) error) error {
	return c.call(ctx, acct, m, done, func(ctx context.Context, access string) error {
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

func (c *client) service(ctx context.Context, access string) (*searchconsole.Service, error) {
	// The generated client ignores option.WithTokenSource if WithHTTPClient is given, so the transport adds the token.
	token := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: access})
	httpClient := c.tokens.through(&oauth2.Transport{Source: token, Base: boundedBody{c.tokens.httpClient.Transport, maxReply}})
	service, err := searchconsole.NewService(ctx, option.WithHTTPClient(httpClient), option.WithEndpoint(c.transport.base+"/"))
	if err != nil {
		return nil, &Error{Kind: Misconfigured, Message: clean(err.Error(), access)}
	}
	service.UserAgent = userAgent
	return service, nil
}

// boundedBody ends decoded bodies with an *http.MaxBytesError at its limit, because the libraries read to the end.
type boundedBody struct {
	http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b boundedBody) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, b.most)
	return response, nil
}

// serviceFailure turns an error of the generated client into an *Error or a context's error.
func (c *client) serviceFailure(err error, access string) error {
	if failure, ok := errors.AsType[*Error](err); ok {
		return failure
	}
	if refused, ok := errors.AsType[*googleapi.Error](err); ok {
		return classify(errorReply{
			status:     refused.Code,
			retryAfter: refused.Header.Get("Retry-After"),
			body:       []byte(refused.Body),
		}, c.now(), access)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(maxReply)
	}
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	return unreachable(err.Error(), access)
}
