package testbed

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"sara/proxy/upstream/gscsim"
)

// simulate starts the simulator, with one user for each account, and returns the users' credential files.
func (b *Testbed) simulate(c Config) (credentials [][]byte, err error) {
	var users []gscsim.User
	for i, account := range c.Accounts {
		name := fmt.Sprintf("account-%d", i)
		user := gscsim.User{Email: name, ClientID: name + ".apps.googleusercontent.com", ClientSecret: rand.Text(), RefreshToken: rand.Text()}
		for _, property := range account.Properties {
			site := c.Site
			site.URL = "sc-domain:" + property.Domain
			if property.Queries > 0 {
				site.Queries = property.Queries
			}
			user.Sites = append(user.Sites, site)
		}
		file, err := user.AuthorizedUserJSON()
		if err != nil {
			return nil, err
		}
		users, credentials = append(users, user), append(credentials, file)
	}
	const seed = 11
	unlimited := gscsim.Quotas{SearchPerMinute: -1, InspectionsPerMinute: -1, InspectionsPerDay: -1}
	b.Simulator = gscsim.New(gscsim.Config{Seed: seed, Now: time.Now, Quotas: unlimited, Users: users})
	b.upstream = httptest.NewServer(b.count(c.upstream(b.Simulator)))
	return credentials, nil
}

func (c Config) upstream(simulator http.Handler) http.Handler {
	if c.Upstream == nil {
		return simulator
	}
	return c.Upstream(simulator)
}

// count counts search analytics calls on their way to the upstream.
func (b *Testbed) count(upstream http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/searchAnalytics/query") {
			b.calls.Add(1)
		}
		upstream.ServeHTTP(w, r)
	})
}

// Calls returns how many search analytics calls the replicas have made, whether the simulator or what stands in front of it answers them.
func (b *Testbed) Calls() int64 { return b.calls.Load() }
