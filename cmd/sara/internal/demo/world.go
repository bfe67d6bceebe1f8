package demo

import (
	"context"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/admin"
	"sara/policy"
	"sara/translate"
)

// A World is what the demo prints when it is ready.
type World struct {
	BaseURL     string              `json:"base_url"`
	AdminURL    string              `json:"admin_url"`
	UpstreamURL string              `json:"upstream_url"`
	Keys        map[string]string   `json:"keys"`
	Properties  map[string]Property `json:"properties"`

	keyTable      []row // for people, in this order
	propertyTable []row
}

// A Property is a property of the demo world, with all that names it.
type Property struct {
	ID          string `json:"id"`
	GSCProperty string `json:"gsc_property"`
	Domain      string `json:"domain"`
	Slug        string `json:"slug"`
}

type row struct{ name, plan, about string }

// The accounts. A plan limits the number of keys, so the keys with fewer scopes belong to an agency of their own.
const (
	ownerAccount    = "Alder and Pine"
	agencyAccount   = "Bright Signal"
	scopesAccount   = "Harbor Analytics"
	trialAccount    = "Tryout Studio"
	lapsedAccount   = "Lapsed Letters"
	strangerAccount = "Quiet Harbor"
)

// The workspaces. The property main is alone in one.
const (
	shopWorkspace      = "Shop"
	portfolioWorkspace = "Portfolio"
	strangerWorkspace  = "Elsewhere"
)

func emailOf(account string) string {
	switch account {
	case ownerAccount:
		return "ines@alderandpine.example"
	case agencyAccount:
		return "omar@brightsignal.example"
	case scopesAccount:
		return "lena@harboranalytics.example"
	case trialAccount:
		return "theo@tryoutstudio.example"
	case lapsedAccount:
		return "mira@lapsedletters.example"
	}
	return "rae@quietharbor.example"
}

// seeder creates the demo world through the same code as the commands.
type seeder struct {
	admin.Admin
	issue admin.KeyOptions
	users *Users
	now   time.Time
	world *World
}

// seed fills an empty store with the demo world.
func seed(ctx context.Context, r admin.Admin, issue admin.KeyOptions, users *Users, now time.Time) (*World, error) {
	s := seeder{Admin: r, issue: issue, users: users, now: now,
		world: &World{Keys: make(map[string]string), Properties: make(map[string]Property)}}
	for _, step := range []func(context.Context) error{s.accounts, s.people, s.connections, s.properties, s.segments, s.annotations, s.keys} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	// A trial cannot have keys, so its key was created under another plan.
	_, err := r.Store.SetPlan(ctx, trialAccount, "trial", nil)
	return s.world, err
}

func (s *seeder) accounts(ctx context.Context) error {
	lastMonth := translate.Date(s.now.Unix()/int64(24*time.Hour/time.Second)) - 30
	for _, a := range []struct {
		name, plan string
		until      *translate.Date
	}{
		{ownerAccount, "pro", nil}, {agencyAccount, "agency", nil}, {scopesAccount, "agency", nil},
		{trialAccount, "pro", nil}, {lapsedAccount, "pro", &lastMonth}, {strangerAccount, "agency", nil},
	} {
		if _, err := s.Store.AddAccount(ctx, a.name, a.plan, a.until); err != nil {
			return err
		}
	}
	return nil
}

func (s *seeder) people(ctx context.Context) error {
	for _, w := range []struct{ account, name string }{
		{ownerAccount, shopWorkspace}, {ownerAccount, portfolioWorkspace}, {strangerAccount, strangerWorkspace},
	} {
		if _, err := s.Store.AddWorkspace(ctx, w.account, w.name); err != nil {
			return err
		}
	}
	for _, account := range []string{ownerAccount, agencyAccount, scopesAccount, trialAccount, lapsedAccount} {
		if _, err := s.Store.AddPerson(ctx, account, emailOf(account), []string{shopWorkspace, portfolioWorkspace}); err != nil {
			return err
		}
	}
	_, err := s.Store.AddPerson(ctx, strangerAccount, emailOf(strangerAccount), []string{strangerWorkspace})
	return err
}

func (s *seeder) connections(ctx context.Context) error {
	for _, c := range []struct{ name, workspace string }{
		{ShopConnection, shopWorkspace}, {PortfolioConnection, portfolioWorkspace}, {PartnerConnection, portfolioWorkspace},
		{FormerConnection, portfolioWorkspace}, {StrangerConnection, strangerWorkspace},
	} {
		if _, _, err := s.verifying(c.name).AddConnection(ctx, c.workspace, c.name, s.users.Credentials[c.name]); err != nil {
			return err
		}
	}
	return nil
}

// verifying returns an Admin that verifies with Search Console, except for the revoked connection.
func (s *seeder) verifying(connection string) admin.Admin {
	a := s.Admin
	if connection == FormerConnection {
		a.Upstream = nil
	}
	return a
}

func (s *seeder) properties(ctx context.Context) error {
	for _, p := range []struct {
		name, connection, site, display, slug, about string
		starred                                      bool
	}{
		{"main", ShopConnection, SiteMain, "Alder & Pine", "alder-and-pine", "brand terms, page groups, annotations, 36 months", true},
		{"prefix", PortfolioConnection, SitePrefix, "Harbor Coffee shop", "harbor-coffee", "a URL prefix", true},
		{"archived", PortfolioConnection, SiteArchived, "Old Mill Bakery", "old-mill", "archived, 24 months", false},
		{"disconnected", FormerConnection, SiteDisconnected, "Tidewater Tours", "tidewater", "its credentials were revoked, 24 months", false},
		{"fresh", PortfolioConnection, SiteFresh, "Sundial Studio", "sundial", "three weeks old", false},
		{"twin_a", PortfolioConnection, SiteTwin, "Fern & Field", "fern-and-field", "the same domain, connected twice", false},
		{"twin_b", PartnerConnection, SiteTwin, "Fern & Field (partner)", "fern-and-field-partner", "the same domain, connected twice", false},
		{"late", PortfolioConnection, SiteLate, "Lattice & Loom", "lattice", "its last two days are not published yet", false},
		{"gaps", PortfolioConnection, SiteGaps, "Wren & Willow", "wren-and-willow", "24 months, of which the archive lacks three days", false},
		{"foreign", StrangerConnection, SiteForeign, "Quiet Harbor", "quiet-harbor", "another account's: no key above reaches it", false},
	} {
		added, err := s.verifying(p.connection).AddProperty(ctx, sqlstore.PropertySpec{
			Connection: p.connection, Site: p.site, DisplayName: p.display, Slug: p.slug})
		if err != nil {
			return err
		}
		if _, err := s.Store.SetStarred(ctx, added.ID, p.starred); err != nil {
			return err
		}
		s.world.Properties[p.name] = Property{ID: added.ID, GSCProperty: added.Site, Domain: added.Host, Slug: added.Slug}
		s.world.propertyTable = append(s.world.propertyTable, row{name: p.name, about: p.about})
	}
	_, err := s.Store.SetArchived(ctx, s.world.Properties["archived"].ID, true)
	return err
}

// segments sets main's brand terms, of all three kinds, and its page groups, with all four types of rules.
func (s *seeder) segments(ctx context.Context) error {
	var terms []translate.BrandTerm
	for _, text := range []string{"alder & pine", "alderandpine", "exact:alder", `regex:\balderr?(\.com)?\b`} {
		term, err := translate.ParseBrandTerm(text)
		if err != nil {
			return err
		}
		terms = append(terms, term)
	}
	main := s.world.Properties["main"].ID
	if _, err := s.Store.SetBrandTerms(ctx, main, terms); err != nil {
		return err
	}
	_, err := s.Store.SetPageGroups(ctx, main, []translate.PageGroup{
		{Name: "Home", Rules: []translate.PageRule{{Type: "equals", Value: "/"}}},
		{Name: "Products", Rules: []translate.PageRule{{Type: "prefix", Value: "/products/"}, {Type: "contains", Value: "/categories/"}}},
		{Name: "Blog", Rules: []translate.PageRule{{Type: "prefix", Value: "/blog/"}}},
		{Name: "Documentation", Rules: []translate.PageRule{{Type: "regex", Value: `/docs/.+\.html$`}}},
	})
	return err
}

func (s *seeder) annotations(ctx context.Context) error {
	today := translate.Date(s.now.Unix() / int64(24*time.Hour/time.Second))
	for _, a := range []sqlstore.Annotation{
		{Date: today - 400, Title: "New shop system", Note: "All product addresses were redirected.", Color: "purple"},
		{Date: today - 120, Title: "Core update", Note: "Announced by Google.", Color: "red"},
		{Date: today - 45, Title: "Summer catalogue", Color: "green"},
		{Date: today - 10, Title: "Blog redesign", Note: "Titles and descriptions rewritten."},
	} {
		if _, err := s.Store.AddAnnotation(ctx, s.world.Properties["main"].ID, a); err != nil {
			return err
		}
	}
	return nil
}

func (s *seeder) keys(ctx context.Context) error {
	yesterday := s.now.AddDate(0, 0, -1)
	for _, k := range []struct {
		name, account, plan string
		scopes              policy.Scopes
		workspace           string
		expires             *time.Time
		about               string
	}{
		{"pro", ownerAccount, "pro", policy.AllScopes, "", nil, "all scopes"},
		{"agency", agencyAccount, "agency", policy.AllScopes, "", nil, "all scopes"},
		{"pro_second", ownerAccount, "pro", policy.AllScopes, "", nil, "all scopes, the same account as pro"},
		{"properties_only", scopesAccount, "agency", policy.PropertiesRead, "", nil, "properties:read"},
		{"performance_only", scopesAccount, "agency", policy.PerformanceRead, "", nil, "performance:read"},
		{"indexing_only", scopesAccount, "agency", policy.IndexingRead, "", nil, "indexing:read"},
		{"config_only", scopesAccount, "agency", policy.ConfigRead, "", nil, "config:read"},
		{"workspace_scoped", scopesAccount, "agency", policy.AllScopes, shopWorkspace, nil, "the workspace of main only"},
		{"trial", trialAccount, "trial", policy.AllScopes, "", nil, "403: the plan has no access"},
		{"lapsed", lapsedAccount, "pro", policy.AllScopes, "", nil, "403: the plan ended last month"},
		{"revoked", scopesAccount, "agency", policy.AllScopes, "", nil, "401"},
		{"expired", scopesAccount, "agency", policy.AllScopes, "", &yesterday, "401"},
	} {
		key, text, err := s.CreateKey(ctx, s.issue, sqlstore.KeySpec{Person: emailOf(k.account), Name: k.name,
			Scopes: k.scopes.Names(), Workspace: k.workspace, ExpiresAt: k.expires})
		if err != nil {
			return err
		}
		if k.name == "revoked" {
			if _, err := s.Store.RevokeKey(ctx, key.ID); err != nil {
				return err
			}
		}
		s.world.Keys[k.name] = text
		s.world.keyTable = append(s.world.keyTable, row{name: k.name, plan: k.plan, about: k.about})
	}
	return nil
}
