package admin

import (
	"context"
	"fmt"
	"strings"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
)

// shownSites bounds how many sites an error names.
const shownSites = 20

// checkLost returns an error if properties of the connection are not among the sites, as with credentials of another account. A property
// that could not be read before is not lost.
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
	var lost []string
	had := 0
	for _, p := range properties {
		if p.Connection.ID != c.ID {
			continue
		}
		had++
		if p.AccessNote == "" && !reached[p.Site] {
			lost = append(lost, p.Site)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	shown, more := lost, ""
	if n := len(lost) - shownSites; n > 0 {
		shown, more = lost[:shownSites], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("nothing was changed: these credentials do not reach %d of %d properties of connection %q: %s%s. "+
		"Use a file of the account that reaches them, or repeat the command with --force to lose them",
		len(lost), had, c.Name, strings.Join(shown, ", "), more)
}
