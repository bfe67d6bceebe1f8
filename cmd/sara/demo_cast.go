package main

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"time"

	"sara/proxy/upstream/gscsim"
)

// A cast is the users of the simulated Search Console, and the credential files that connect them.
type cast struct {
	url         string // of the simulator
	users       []gscsim.User
	credentials map[string][]byte // by the connection's name
}

// The sites of the demo world. Their hosts cannot exist, because the domain example is reserved.
const (
	siteMain         = "sc-domain:alderandpine.example"
	sitePrefix       = "https://www.harborcoffee.example/shop/"
	siteArchived     = "sc-domain:oldmillbakery.example"
	siteDisconnected = "sc-domain:tidewatertours.example"
	siteFresh        = "sc-domain:sundialstudio.example"
	siteTwin         = "sc-domain:fernandfield.example"
	siteForeign      = "sc-domain:quietharbor.example"
	siteUnverified   = "https://staging.harborcoffee.example/" // listed, but never connected
)

// The connections of the demo world: two service accounts, three people who consented.
const (
	shopConnection      = "alder-and-pine"
	portfolioConnection = "portfolio"
	partnerConnection   = "partner"
	formerConnection    = "former-owner"
	strangerConnection  = "quiet-harbor"
)

func newCast(now time.Time, url string) (*cast, error) {
	c := &cast{url: url, credentials: make(map[string][]byte)}
	if err := c.addServiceAccount(shopConnection, "search-reader@alder-and-pine.iam.gserviceaccount.com",
		gscsim.Site{URL: siteMain, Brand: "alder"}); err != nil {
		return nil, err
	}
	if err := c.addServiceAccount(partnerConnection, "reports@fern-partner.iam.gserviceaccount.com",
		gscsim.Site{URL: siteTwin, Permission: gscsim.RestrictedUser}); err != nil {
		return nil, err
	}
	firstDay := now.UTC().AddDate(0, 0, -21).Format(time.DateOnly)
	if err := c.addPerson(portfolioConnection, false,
		gscsim.Site{URL: sitePrefix, Permission: gscsim.FullUser}, gscsim.Site{URL: siteArchived, Queries: 400, Pages: 150},
		gscsim.Site{URL: siteFresh, FirstDay: firstDay}, gscsim.Site{URL: siteTwin},
		gscsim.Site{URL: siteUnverified, Permission: gscsim.UnverifiedUser}); err != nil {
		return nil, err
	}
	if err := c.addPerson(formerConnection, true, gscsim.Site{URL: siteDisconnected, Queries: 400, Pages: 150}); err != nil {
		return nil, err
	}
	return c, c.addPerson(strangerConnection, false, gscsim.Site{URL: siteForeign})
}

func (c *cast) addServiceAccount(connection, email string, sites ...gscsim.Site) error {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", email, err)
	}
	user := gscsim.User{Email: email, PublicKey: &key.PublicKey, Sites: sites}
	c.users = append(c.users, user)
	c.credentials[connection], err = user.ServiceAccountJSON(key, c.url+"/token")
	return err
}

func (c *cast) addPerson(connection string, revoked bool, sites ...gscsim.Site) (err error) {
	user := gscsim.User{Email: connection, ClientID: connection + ".apps.googleusercontent.com", ClientSecret: "GOCSPX-" + rand.Text(),
		RefreshToken: "1//" + rand.Text(), Revoked: revoked, Sites: sites}
	c.users = append(c.users, user)
	c.credentials[connection], err = user.AuthorizedUserJSON()
	return err
}

// simulation returns the configuration of the simulator.
func (c *cast) simulation(now func() time.Time) gscsim.Config {
	const seed = 20
	return gscsim.Config{Seed: seed, Now: now, Users: c.users}
}
