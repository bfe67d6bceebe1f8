package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/upstream"
)

// A registrar makes the changes that take more than the store: those that ask Search Console first, and keys. The
// commands and the demo make them through it alike.
type registrar struct {
	store    *sqlstore.Store
	upstream *upstream.Gateway // nil: Search Console is not asked
}

// verifyTimeout bounds what one command asks of Search Console, retries included.
const verifyTimeout = time.Minute

// addConnection stores credentials under a workspace. With Search Console to ask, it returns the sites that they reach.
func (r registrar) addConnection(ctx context.Context, workspace, name string, credentials []byte) (
	sqlstore.Connection, []upstream.Site, error) {
	found, err := r.store.Workspace(ctx, workspace)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	sites, err := r.try(ctx, credentials)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	c, err := r.store.AddConnection(ctx, found.ID, name, credentials)
	return c, sites, err
}

// updateConnection gives a connection new credentials.
func (r registrar) updateConnection(ctx context.Context, connection string, credentials []byte) (
	sqlstore.Connection, []upstream.Site, error) {
	found, err := r.store.Connection(ctx, connection)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	sites, err := r.try(ctx, credentials)
	if err != nil {
		return sqlstore.Connection{}, nil, err
	}
	c, err := r.store.ReplaceCredentials(ctx, found.ID, credentials)
	return c, sites, err
}

// try checks that credentials are such, and with Search Console to ask, that they work.
func (r registrar) try(ctx context.Context, credentials []byte) ([]upstream.Site, error) {
	known, err := upstream.ParseCredentials(credentials)
	if err != nil || r.upstream == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	account := upstream.Account{
		// The gateway keeps tokens by this id, so each set of credentials needs one of its own.
		ID:          fmt.Sprintf("%x", sha256.Sum256(credentials)),
		Credentials: func(context.Context) ([]byte, error) { return credentials, nil },
	}
	if err := r.upstream.Check(ctx, account); err != nil {
		return nil, fmt.Errorf("get an access token for %s: %w", known.Identity, err)
	}
	sites, err := r.upstream.Sites(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("list the sites of %s: %w", known.Identity, err)
	}
	return sites, nil
}

// sites asks what a stored connection reaches.
func (r registrar) sites(ctx context.Context, c sqlstore.Connection) ([]upstream.Site, error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	sites, err := r.upstream.Sites(ctx, upstream.Account{ID: c.ID, Revision: c.Revision})
	if err != nil {
		return nil, fmt.Errorf("list the sites of connection %q: %w", c.Name, err)
	}
	return sites, nil
}

// unverified is the permission of somebody who reads no data of the site.
const unverified = "siteUnverifiedUser"

// addProperty adds a property to a connection. With Search Console to ask, the connection has to reach it.
func (r registrar) addProperty(ctx context.Context, spec sqlstore.PropertySpec) (sqlstore.Property, error) {
	site, host, _, err := sqlstore.ParseSite(spec.Site)
	if err != nil {
		return sqlstore.Property{}, err
	}
	connection, err := r.store.Connection(ctx, spec.Connection)
	if err != nil {
		return sqlstore.Property{}, err
	}
	spec.Connection = connection.ID
	if r.upstream == nil {
		return r.store.AddProperty(ctx, spec)
	}
	sites, err := r.sites(ctx, connection)
	if err != nil {
		return sqlstore.Property{}, err
	}
	at := slices.IndexFunc(sites, func(s upstream.Site) bool { return s.URL == site })
	switch {
	case at < 0:
		return sqlstore.Property{}, unreached(connection, site, host, sites)
	case sites[at].Permission == unverified:
		return sqlstore.Property{}, fmt.Errorf("%s sees %s but has not verified it, so it reads no data: %s",
			connection.Identity, site, grantAccess(connection))
	}
	spec.PermissionLevel = sites[at].Permission
	return r.store.AddProperty(ctx, spec)
}

// unreached explains why a property is not among the sites of a connection.
func unreached(c sqlstore.Connection, site, host string, sites []upstream.Site) error {
	var related []string
	for _, s := range sites {
		if _, other, _, err := sqlstore.ParseSite(s.URL); err == nil && strings.TrimPrefix(other, "www.") == strings.TrimPrefix(host, "www.") {
			related = append(related, s.URL)
		}
	}
	if len(related) > 0 {
		return fmt.Errorf("%s does not reach %s, but it does reach %s: add that one, or %s",
			c.Identity, site, strings.Join(related, ", "), grantAccess(c))
	}
	return fmt.Errorf("%s does not reach %s; it reaches %d other sites: %s", c.Identity, site, len(sites), grantAccess(c))
}

// grantAccess says how a connection gets to reach a property.
func grantAccess(c sqlstore.Connection) string {
	if c.Kind == sqlstore.ServiceAccount {
		return "add " + c.Identity + " as a user of the property in Search Console (Settings, Users and permissions)"
	}
	return "verify the property with the connected Google account, or have an owner add that account as a user in Search Console"
}

// imported is what became of one site in an import.
type imported struct {
	site     upstream.Site
	property *sqlstore.Property // nil when it was skipped
	added    bool
	skipped  string // why
}

// importProperties adds what a connection reaches and does not have yet. Sites whose data it cannot read are skipped.
func (r registrar) importProperties(ctx context.Context, connection string) ([]imported, error) {
	c, err := r.store.Connection(ctx, connection)
	if err != nil {
		return nil, err
	}
	sites, err := r.sites(ctx, c)
	if err != nil {
		return nil, err
	}
	properties, err := r.store.Properties(ctx)
	if err != nil {
		return nil, err
	}
	had := make(map[string]*sqlstore.Property)
	for i := range properties {
		if properties[i].Connection.ID == c.ID {
			had[properties[i].Site] = &properties[i]
		}
	}
	results := make([]imported, 0, len(sites))
	for _, site := range sites {
		result, err := r.importSite(ctx, c, site, had)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// importSite adds a site unless it cannot be or is among those that the connection had.
func (r registrar) importSite(ctx context.Context, c sqlstore.Connection, site upstream.Site,
	had map[string]*sqlstore.Property) (imported, error) {
	if site.Permission == unverified {
		return imported{site: site, skipped: "the account has not verified it, so it reads no data"}, nil
	}
	canonical, _, _, err := sqlstore.ParseSite(site.URL)
	if err != nil {
		return imported{site: site, skipped: err.Error()}, nil
	}
	if p := had[canonical]; p != nil {
		return imported{site: site, property: p}, nil
	}
	p, err := r.store.AddProperty(ctx, sqlstore.PropertySpec{Connection: c.ID, Site: site.URL, PermissionLevel: site.Permission})
	return imported{site: site, property: &p, added: true}, err
}

// keyIssue is what issuing keys depends on.
type keyIssue struct {
	prefix string
	plans  policy.Plans
}

// createKey makes a key and stores its hash. Nothing else of the key is kept: it is returned this one time.
func (r registrar) createKey(ctx context.Context, issue keyIssue, spec sqlstore.KeySpec) (sqlstore.APIKey, string, error) {
	if len(spec.Scopes) == 0 {
		spec.Scopes = policy.AllScopes.Names()
	}
	scopes, err := policy.ParseScopes(spec.Scopes)
	if err != nil {
		return sqlstore.APIKey{}, "", err
	}
	spec.Scopes = scopes.Names()
	text, hash := policy.NewKey(issue.prefix)
	spec.Hash = hash
	key, err := r.store.CreateKey(ctx, spec, func(plan string) int { return issue.plans[plan].Keys })
	if err != nil {
		return sqlstore.APIKey{}, "", err
	}
	return key, text, nil
}

// planKnown refuses a plan that the table does not have. The plans without access need not be in it.
func planKnown(plans policy.Plans, name string) error {
	if _, ok := plans[name]; ok || name == "trial" || name == "none" {
		return nil
	}
	names := []string{"trial", "none"}
	for known := range plans {
		if !slices.Contains(names, known) {
			names = append(names, known)
		}
	}
	slices.Sort(names)
	return fmt.Errorf("plan %q is none of %s", name, strings.Join(names, ", "))
}
