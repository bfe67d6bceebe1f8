package demo

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"time"

	"sara/proxy/upstream/gscsim"
)

// Users are the users of the simulated Search Console, and the credential files that connect them.
type Users struct {
	URL         string // of the simulator
	users       []gscsim.User
	Credentials map[string][]byte // by the connection's name
	Client      gscsim.Client     // for the consent of the people among them
}

// The sites of the demo world. Their hosts cannot exist, because the domain example is reserved.
const (
	SiteMain         = "sc-domain:alderandpine.example"
	SitePrefix       = "https://www.harborcoffee.example/shop/"
	SiteArchived     = "sc-domain:oldmillbakery.example"
	SiteDisconnected = "sc-domain:tidewatertours.example"
	SiteFresh        = "sc-domain:sundialstudio.example"
	SiteTwin         = "sc-domain:fernandfield.example"
	SiteLate         = "sc-domain:latticeandloom.example"
	SiteGaps         = "sc-domain:wrenandwillow.example"
	SiteForeign      = "sc-domain:quietharbor.example"
	SiteUnverified   = "https://staging.harborcoffee.example/" // listed, but never connected
)

// lateDays is how many days the late site's last published day is behind today, two more than usual.
const lateDays = 4

// lostDays is how many days at the start of the live window Search Console has deleted already, of the site with gaps.
const lostDays = 3

// The connections of the demo world: two service accounts, three people who consented.
const (
	ShopConnection      = "alder-and-pine"
	PortfolioConnection = "portfolio"
	PartnerConnection   = "partner"
	FormerConnection    = "former-owner"
	StrangerConnection  = "quiet-harbor"
)

// NewKey makes the private key of a service account, which takes about a tenth of a second.
func NewKey() (*rsa.PrivateKey, error) {
	const bits = 2048
	return rsa.GenerateKey(rand.Reader, bits)
}

// NewUsers returns the users of a simulator at a URL, with service accounts whose keys newKey makes.
func NewUsers(now time.Time, url string, newKey func() (*rsa.PrivateKey, error)) (*Users, error) {
	c := &Users{URL: url, Credentials: make(map[string][]byte),
		Client: gscsim.Client{ID: "sara-demo.apps.googleusercontent.com", Secret: "GOCSPX-" + rand.Text(), Testing: true}}
	if err := c.addServiceAccount(newKey, ShopConnection, "search-reader@alder-and-pine.iam.gserviceaccount.com",
		gscsim.Site{URL: SiteMain, Brand: "alder"}); err != nil {
		return nil, err
	}
	if err := c.addServiceAccount(newKey, PartnerConnection, "reports@fern-partner.iam.gserviceaccount.com",
		gscsim.Site{URL: SiteTwin, Permission: gscsim.RestrictedUser}); err != nil {
		return nil, err
	}
	firstDay := now.UTC().AddDate(0, 0, -21).Format(time.DateOnly)
	if err := c.AddPerson(PortfolioConnection, false,
		gscsim.Site{URL: SitePrefix, Permission: gscsim.FullUser}, gscsim.Site{URL: SiteArchived, Queries: 400, Pages: 150},
		gscsim.Site{URL: SiteFresh, FirstDay: firstDay}, gscsim.Site{URL: SiteTwin},
		gscsim.Site{URL: SiteLate, Publication: gscsim.Publication{Lag: lateDays}},
		gscsim.Site{URL: SiteGaps, Queries: 400, Pages: 150, Publication: gscsim.Publication{LostDays: lostDays}},
		gscsim.Site{URL: SiteUnverified, Permission: gscsim.UnverifiedUser}); err != nil {
		return nil, err
	}
	if err := c.AddPerson(FormerConnection, true, gscsim.Site{URL: SiteDisconnected, Queries: 400, Pages: 150}); err != nil {
		return nil, err
	}
	return c, c.AddPerson(StrangerConnection, false, gscsim.Site{URL: SiteForeign})
}

func (c *Users) addServiceAccount(newKey func() (*rsa.PrivateKey, error), connection, email string, sites ...gscsim.Site) error {
	key, err := newKey()
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", email, err)
	}
	user := gscsim.User{Email: email, PublicKey: &key.PublicKey, Sites: sites}
	c.users = append(c.users, user)
	c.Credentials[connection], err = user.ServiceAccountJSON(key, c.URL+"/token")
	return err
}

// AddressOf returns the e-mail address of the Google account of a person with a connection of that name.
func AddressOf(connection string) string { return connection + "@accounts.example" }

// AddPerson adds a person who consented, with authorized_user credentials under the connection's name.
func (c *Users) AddPerson(connection string, revoked bool, sites ...gscsim.Site) (err error) {
	user := gscsim.User{Email: AddressOf(connection), ClientID: connection + ".apps.googleusercontent.com", ClientSecret: "GOCSPX-" + rand.Text(),
		RefreshToken: "1//" + rand.Text(), Revoked: revoked, Sites: sites}
	c.users = append(c.users, user)
	c.Credentials[connection], err = user.AuthorizedUserJSON()
	return err
}

// Simulation returns the configuration of the simulator.
func (c *Users) Simulation(now func() time.Time) gscsim.Config {
	const seed = 20
	// Tokens are signed by the real clock.
	return gscsim.Config{Seed: seed, Now: now, TokenNow: time.Now, Users: c.users, Clients: []gscsim.Client{c.Client}}
}
