package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
	"sara/translate"
)

// Consented is a person's consent that is not stored yet, and what it reaches.
type Consented struct {
	Grant     upstream.Grant
	Identity  string
	Readable  []upstream.Site // whose data the account can read
	Sightless []upstream.Site // which the account sees, but has not verified

	workspace sqlstore.Workspace
	name      string
	renewed   *sqlstore.Connection          // the connection that the consent renews; nil: it is a new one
	had       map[string]*sqlstore.Property // of the renewed connection, by their sites
}

// Has reports whether a site is a property of the renewed connection already.
func (c *Consented) Has(s upstream.Site) bool {
	canonical, _, _, err := sqlstore.ParseSite(s.URL)
	return err == nil && c.had[canonical] != nil
}

// Explore asks Search Console what a consent reaches. If the same Google account is connected to the workspace already, under the
// same name unless none is given, the consent renews that connection.
func (a Admin) Explore(ctx context.Context, workspace sqlstore.Workspace, name string, grant upstream.Grant) (*Consented, error) {
	credentials, err := upstream.ParseCredentials(grant.Credentials, a.TokenURL)
	if err != nil {
		return nil, err
	}
	sites, err := a.verify(ctx, grant.Credentials)
	if err != nil {
		return nil, err
	}
	c := &Consented{Grant: grant, Identity: credentials.Identity, workspace: workspace, name: name, had: make(map[string]*sqlstore.Property)}
	for _, s := range sites {
		if s.Permission == Unverified {
			c.Sightless = append(c.Sightless, s)
			continue
		}
		c.Readable = append(c.Readable, s)
	}
	connections, err := a.Store.Connections(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(connections, func(other sqlstore.Connection) bool {
		return grant.Account != "" && other.Identity == grant.Account && other.Kind == sqlstore.AuthorizedUser &&
			other.WorkspaceID == workspace.ID && (name == "" || other.Name == name)
	})
	if at < 0 {
		return c, nil
	}
	c.renewed = &connections[at]
	c.had, err = a.propertiesOf(ctx, c.renewed.ID)
	return c, err
}

// propertiesOf returns the properties of a connection by their sites.
func (a Admin) propertiesOf(ctx context.Context, connectionID string) (map[string]*sqlstore.Property, error) {
	properties, err := a.Store.Properties(ctx)
	if err != nil {
		return nil, err
	}
	had := make(map[string]*sqlstore.Property)
	for i := range properties {
		if properties[i].Connection.ID == connectionID {
			had[properties[i].Site] = &properties[i]
		}
	}
	return had, nil
}

// StoreConsent stores a consent as a connection, or renews one, and adds sites to it.
func (a Admin) StoreConsent(ctx context.Context, c *Consented, sites []upstream.Site) (connection sqlstore.Connection, added []Imported, err error) {
	if c.renewed != nil {
		connection, err = a.Store.ReplaceCredentials(ctx, c.renewed.ID, c.Grant.Credentials)
	} else {
		connection, err = a.Store.AddConnection(ctx, c.workspace.ID, c.name, c.Grant.Credentials)
	}
	if err != nil {
		return connection, nil, err
	}
	if added, err = a.importSites(ctx, connection, sites, c.had); err != nil {
		err = fmt.Errorf("the connection %s is stored, but: %w", connection.Name, err)
	}
	return connection, added, err
}

// TriedDays is how many days Try asks for.
const TriedDays = 28

// Try asks Search Console for the figures of a site with the stored credentials, and returns the clicks of the last days.
func (a Admin) Try(ctx context.Context, c sqlstore.Connection, site string, now time.Time) (clicks int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	calendar, err := translate.NewCalendar()
	if err != nil {
		return 0, err
	}
	anchor := calendar.Anchor(now)
	period := translate.DateRange{Start: anchor - (TriedDays - 1), End: anchor}
	target := upstream.Target{Site: site, ConnectionID: c.ID, Revision: c.Revision, Healthy: true}
	rows, err := a.Upstream.Query(ctx, target, translate.SeriesQuery(site, period, nil))
	if err != nil {
		return 0, fmt.Errorf("ask for the figures of %s: %w", site, err)
	}
	return rows.Total().Clicks, nil
}
