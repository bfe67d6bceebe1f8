package admin

import (
	"context"
	"fmt"
	"strings"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
)

// A LostSitesError is new credentials of a connection that do not reach all of its properties, such as those of another account.
type LostSitesError struct {
	Connection string
	Sites      []string // that would be lost, in the order of the properties
	Properties int      // of the connection
}

// shownSites bounds how many sites an error names.
const shownSites = 20

func (e *LostSitesError) Error() string {
	shown, more := e.Sites, ""
	if n := len(shown) - shownSites; n > 0 {
		shown, more = shown[:shownSites], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("nothing was changed: these credentials do not reach %d of the %d properties of connection %q: %s%s. "+
		"Use a file of the account that reaches them, or repeat the command with --force to lose them",
		len(e.Sites), e.Properties, e.Connection, strings.Join(shown, ", "), more)
}

// checkLost returns a *LostSitesError if properties of the connection are not among the sites. A property that could not be read
// before is not lost.
func (a Admin) checkLost(ctx context.Context, c sqlstore.Connection, sites []upstream.Site) error {
	reached := make(map[string]bool, len(sites))
	for _, site := range sites {
		if canonical, _, _, err := sqlstore.ParseSite(site.URL); err == nil && site.Permission != Unverified {
			reached[canonical] = true
		}
	}
	properties, err := a.Store.Properties(ctx)
	if err != nil {
		return err
	}
	lost := &LostSitesError{Connection: c.Name}
	for _, p := range properties {
		if p.Connection.ID != c.ID {
			continue
		}
		lost.Properties++
		if p.AccessNote == "" && !reached[p.Site] {
			lost.Sites = append(lost.Sites, p.Site)
		}
	}
	if len(lost.Sites) == 0 {
		return nil
	}
	return lost
}
