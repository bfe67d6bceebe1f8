// Package admin makes the administrative changes that involve more than the store: connections and properties, which are
// verified with Search Console first, and API keys.
package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/upstream"
)

// Admin makes the changes of the commands and of the demo.
type Admin struct {
	Store    *sqlstore.Store
	Upstream *upstream.Gateway // nil: do not verify
	TokenURL string            // the token endpoint that keys may name in addition to Google's

	// Sleep waits until a new API key works everywhere, see policy.NewKeyDelay; nil: time.Sleep.
	Sleep func(time.Duration)
}

// verifyTimeout bounds the calls of Search Console for one change, retries included.
const verifyTimeout = time.Minute

// AddConnection stores credentials under a workspace. If verification is on, it returns the sites that they reach.
func (a Admin) AddConnection(ctx context.Context, workspace, name string, credentials []byte) (
	sqlstore.Connection, []upstream.Site, error) {
	found, err := a.Store.Workspace(ctx, workspace)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	sites, err := a.verify(ctx, credentials)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	c, err := a.Store.AddConnection(ctx, found.ID, name, credentials)
	return c, sites, err
}

// UpdateConnection replaces the credentials of a connection. If verification is on, it is an error if the new ones do not reach
// properties that the old ones reached, unless it is forced.
func (a Admin) UpdateConnection(ctx context.Context, connection string, credentials []byte, force bool) (
	sqlstore.Connection, []upstream.Site, error) {
	found, err := a.Store.Connection(ctx, connection)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	sites, err := a.verify(ctx, credentials)
	if err == nil && a.Upstream != nil && !force {
		err = a.checkLost(ctx, found, sites)
	}
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	c, err := a.Store.ReplaceCredentials(ctx, found.ID, credentials)
	return c, sites, err
}

// verify checks that the credentials are well-formed and, if verification is on, that they work. It returns the sites that
// they reach.
func (a Admin) verify(ctx context.Context, credentials []byte) ([]upstream.Site, error) {
	parsed, err := upstream.ParseCredentials(credentials, a.TokenURL)
	if err != nil || a.Upstream == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	account := upstream.Account{
		// The gateway caches tokens by this id, so each set of credentials needs a unique one.
		ID:          fmt.Sprintf("%x", sha256.Sum256(credentials)),
		Credentials: func(context.Context) ([]byte, error) { return credentials, nil },
	}
	if err := a.Upstream.Check(ctx, account); err != nil {
		return nil, fmt.Errorf("get an access token for %s: %w", parsed.Identity, err)
	}
	sites, err := a.Upstream.Sites(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("list the sites of %s: %w", parsed.Identity, err)
	}
	return sites, nil
}

// sites returns the sites that a stored connection reaches.
func (a Admin) sites(ctx context.Context, c sqlstore.Connection) ([]upstream.Site, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	sites, err := a.Upstream.Sites(ctx, upstream.Account{ID: c.ID, Revision: c.Revision})
	if err != nil {
		return nil, fmt.Errorf("list the sites of connection %q: %w", c.Name, err)
	}
	return sites, nil
}

// Unverified is the permission level of a user who cannot read the data of a site.
const Unverified = "siteUnverifiedUser"

// AddProperty adds a property to a connection. If verification is on, the connection must reach the property.
func (a Admin) AddProperty(ctx context.Context, spec sqlstore.PropertySpec) (sqlstore.Property, error) {
	connection, err := a.Store.Connection(ctx, spec.Connection)
	if err != nil {
		return sqlstore.Property{}, err
	}
	spec.Connection = connection.ID
	if spec.PermissionLevel, err = a.permission(ctx, connection, spec.Site); err != nil {
		return sqlstore.Property{}, err
	}
	return a.Store.AddProperty(ctx, spec)
}

// MoveProperty moves a property to another connection. If verification is on, that must reach the property.
func (a Admin) MoveProperty(ctx context.Context, property, connection string) (sqlstore.Property, error) {
	p, err := a.Store.Property(ctx, property)
	if err != nil {
		return sqlstore.Property{}, err
	}
	c, err := a.Store.Connection(ctx, connection)
	if err != nil {
		return sqlstore.Property{}, err
	}
	permission, err := a.permission(ctx, c, p.Site)
	if err != nil {
		return sqlstore.Property{}, err
	}
	return a.Store.MoveProperty(ctx, p.ID, c.ID, permission)
}

// permission returns the permission level of a connection for a site; empty if verification is off. It is an error if the connection
// does not reach the site.
func (a Admin) permission(ctx context.Context, c sqlstore.Connection, wanted string) (string, error) {
	site, host, _, err := sqlstore.ParseSite(wanted)
	if err != nil || a.Upstream == nil {
		return "", err
	}
	sites, err := a.sites(ctx, c)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(sites, func(s upstream.Site) bool { return s.URL == site })
	switch {
	case at < 0:
		return "", unreached(c, site, host, sites)
	case sites[at].Permission == Unverified:
		return "", fmt.Errorf("%s can see %s, but has not verified it, so it cannot read its data: %s", c.Identity, site, GrantAccess(c))
	}
	return sites[at].Permission, nil
}

// unreached says that a property is not among the sites of a connection, and what to do.
func unreached(c sqlstore.Connection, site, host string, sites []upstream.Site) error {
	var related []string
	for _, s := range sites {
		if _, other, _, err := sqlstore.ParseSite(s.URL); err == nil && strings.TrimPrefix(other, "www.") == strings.TrimPrefix(host, "www.") {
			related = append(related, s.URL)
		}
	}
	if len(related) > 0 {
		return fmt.Errorf("%s does not reach %s, but it does reach %s: add that one, or %s",
			c.Identity, site, strings.Join(related, ", "), GrantAccess(c))
	}
	return fmt.Errorf("%s does not reach %s (it reaches %s): %s", c.Identity, site, english.Plural(len(sites), "other site", ""), GrantAccess(c))
}

// GrantAccess says how to give a connection access to a property.
func GrantAccess(c sqlstore.Connection) string {
	if c.Kind == sqlstore.ServiceAccount {
		return "add " + c.Identity + " as a user of the property in Search Console (Settings, Users and permissions)"
	}
	return "verify the property with the connected Google account, or have an owner add that account as a user in Search Console"
}

// Imported is the result of importing one site.
type Imported struct {
	Site     upstream.Site
	Property *sqlstore.Property // nil if it was skipped
	Added    bool
	Skipped  string // why
}

// ImportProperties adds the sites that a connection reaches and does not have yet, of those that match any of the patterns; none: all.
// Sites whose data it cannot read are skipped.
func (a Admin) ImportProperties(ctx context.Context, connection string, patterns ...string) ([]Imported, error) {
	c, err := a.Store.Connection(ctx, connection)
	if err != nil {
		return nil, err
	}
	sites, err := a.sites(ctx, c)
	if err != nil {
		return nil, err
	}
	had, err := a.propertiesOf(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	return a.importSites(ctx, c, slices.DeleteFunc(sites, func(site upstream.Site) bool { return !matchesAny(patterns, site.URL) }), had)
}

// importSites adds sites to a connection, which had these properties before, by their sites. An error says how many were added before: they
// stay.
func (a Admin) importSites(ctx context.Context, c sqlstore.Connection, sites []upstream.Site, had map[string]*sqlstore.Property) ([]Imported, error) {
	results := make([]Imported, 0, len(sites))
	added := 0
	for _, site := range sites {
		result, err := a.importSite(ctx, c, site, had)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w (%s added before; to add the others: sara property import %s)",
				site.URL, err, english.Plural(added, "property was", "properties were"), c.ID)
		}
		if results = append(results, result); result.Added {
			added++
		}
	}
	return results, nil
}

// importSite adds a site unless the connection has it already or cannot read it. It adds to had what it learns.
func (a Admin) importSite(ctx context.Context, c sqlstore.Connection, site upstream.Site,
	had map[string]*sqlstore.Property) (Imported, error) {
	if site.Permission == Unverified {
		return Imported{Site: site, Skipped: "the account has not verified it, so it cannot read its data"}, nil
	}
	canonical, _, _, err := sqlstore.ParseSite(site.URL)
	if err != nil {
		return Imported{Site: site, Skipped: err.Error()}, nil
	}
	if p := had[canonical]; p != nil {
		return Imported{Site: site, Property: p}, nil
	}
	p, err := a.Store.AddProperty(ctx, sqlstore.PropertySpec{Connection: c.ID, Site: site.URL, PermissionLevel: site.Permission})
	if !errors.As(err, new(*sqlstore.ExistsError)) {
		return Imported{Site: site, Property: &p, Added: true}, err
	}
	// Another command has added it since had was read, and is probably adding others.
	now, readErr := a.propertiesOf(ctx, c.ID)
	if maps.Copy(had, now); had[canonical] == nil {
		return Imported{}, errors.Join(err, readErr)
	}
	return Imported{Site: site, Property: had[canonical]}, nil
}

// CheckPlan returns an error for a plan that is not in the table. Plans without access need not be in it.
func CheckPlan(plans policy.Plans, name string) error {
	if _, ok := plans[name]; ok || name == "trial" || name == "none" {
		return nil
	}
	names := []string{"trial", "none"}
	for inTable := range plans {
		if !slices.Contains(names, inTable) {
			names = append(names, inTable)
		}
	}
	slices.Sort(names)
	return fmt.Errorf("plan %q is not one of %s", name, strings.Join(names, ", "))
}
