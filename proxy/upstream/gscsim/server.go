package gscsim

import (
	"cmp"
	"crypto/rsa"
	"encoding/binary"
	"net/http"
	"runtime"
	"strings"
	"time"
	_ "time/tzdata" // days are Pacific, even on a machine without a time zone database
)

// Config describes the simulated world. The Server keeps it; do not change it after New.
type Config struct {
	Seed uint64
	// Now is the clock of the data (which day is today), of the Date of answers, of the quotas and, unless TokenNow is set, of the tokens. Required.
	Now func() time.Time
	// TokenNow is the clock of the token endpoint and of access tokens; nil means Now. A test that freezes Now sets it to
	// time.Now, because OAuth client libraries sign their assertions with the real time.
	TokenNow func() time.Time
	// RetentionMonths is how many months of data are served; zero means Search Console's 16. A larger number serves, from the
	// same seed, data that the real service has already deleted.
	RetentionMonths int
	Quotas          Quotas
	Users           []User
	Clients         []Client // to which the users without a service account can consent
	// Worlds, if not nil, is shared with other Servers.
	Worlds *Worlds
}

// Quotas limit the calls. Zero means Google's published limit, a negative number means no limit.
type Quotas struct {
	SearchPerMinute      int // 1,200; for each site and for each user
	InspectionsPerMinute int // 600; for each site
	InspectionsPerDay    int // 2,000; for each site, by the Pacific day
}

// User is one Google account: its credentials and its sites.
type User struct {
	Email string // the address of a service account, or any label; users with the same label share a quota
	// RefreshToken, ClientID and ClientSecret are authorized_user credentials; an empty RefreshToken means none.
	RefreshToken, ClientID, ClientSecret string
	// PublicKey verifies the RS256 assertions of a service account; nil means that the user has no service account.
	PublicKey *rsa.PublicKey
	Revoked   bool // the token endpoint answers invalid_grant
	Sites     []Site
}

// Permission levels of a Site. An unverified user sees the site in the list, but none of its data. A restricted user cannot
// inspect URLs.
const (
	Owner          = "siteOwner"
	FullUser       = "siteFullUser"
	RestrictedUser = "siteRestrictedUser"
	UnverifiedUser = "siteUnverifiedUser"
)

// Site is one property as one user sees it. Two users that name the same URL with the same sizes see the same data.
type Site struct {
	URL        string // "sc-domain:example.com" or "https://www.example.com/path/"
	Permission string // empty means siteOwner
	Queries    int    // named queries; zero means 1,500
	Pages      int    // zero means 300
	Brand      string // the word of brand queries; empty derives it from the host
	FirstDay   string // YYYY-MM-DD, the first day with figures; empty means always
	// QuietDays are the days without traffic, YYYY-MM-DD.
	QuietDays []string
	// OneDayIn makes a sparse site: about one day in OneDayIn has figures, drawn from the seed, the site and the day. Zero and one
	// mean every day.
	OneDayIn    int
	Publication Publication
	// Sitemaps are the URLs of the submitted sitemaps. Each lists all pages; a URL that ends in .gz is a gzip file. Nil means an
	// index and two sitemaps on the site's own host; empty means none.
	Sitemaps []string
}

// Server is the simulator, an http.Handler.
type Server struct {
	config  Config
	pacific *time.Location
	tokens  tokenSigner
	quota   quotaMeter
	codes   spentCodes
	control control
	working chan struct{} // semaphore: bounds how many answers are computed at once, and so their memory
	files   map[string]sitemapFile
}

// New returns a Server for config. It panics if config.Now is nil, or a site's FirstDay or one of its QuietDays is not a date.
func New(config Config) *Server {
	if config.Now == nil {
		panic("gscsim: Config.Now is nil")
	}
	if config.TokenNow == nil {
		config.TokenNow = config.Now
	}
	config.RetentionMonths = cmp.Or(config.RetentionMonths, 16)
	if config.Worlds == nil {
		config.Worlds = new(Worlds)
	}
	config.Quotas = config.Quotas.withDefaults()
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic("BUG: gscsim: the embedded time zones lack America/Los_Angeles: " + err.Error())
	}
	s := &Server{
		config:  config,
		pacific: pacific,
		tokens:  tokenSigner{key: binary.BigEndian.AppendUint64(nil, config.Seed)},
		quota:   quotaMeter{windows: map[quotaKey]window{}},
		control: control{random: hash(config.Seed, 0xfa)},
		working: make(chan struct{}, runtime.GOMAXPROCS(0)),
		files:   sitemapFiles(config.Users),
	}
	for _, user := range config.Users {
		for _, site := range user.Sites {
			mustTraffic(site)
		}
	}
	return s
}

func (q Quotas) withDefaults() Quotas {
	for _, f := range []struct {
		limit  *int
		google int
	}{{&q.SearchPerMinute, 1200}, {&q.InspectionsPerMinute, 600}, {&q.InspectionsPerDay, 2000}} {
		if *f.limit == 0 {
			*f.limit = f.google
		}
	}
	return q
}

// ServeHTTP serves the API, the consent page, the token endpoint, the simulator's own control endpoints, and the sites' web
// servers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", s.config.Now().UTC().Format(http.TimeFormat)) // not that of the real clock
	// Use the escaped path, because a site URL is one segment whose slashes are escaped.
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	switch {
	case strings.HasPrefix(path, "_sim/"):
		s.serveControl(w, r)
		return
	case path == "token", path == "oauth2/v4/token":
		s.control.tokens.Add(1)
		s.serveToken(w, r)
		return
	case path == consentPath:
		s.serveConsent(w, r)
		return
	}
	call, handle, modern := s.route(r.Method, strings.Split(path, "/"))
	if file, ok := s.fileOf(r, r.Host); ok && handle == nil {
		s.render(file).serve(w, r)
		return
	}
	if handle == nil {
		writeError(w, r, notFoundURL(), false)
		return
	}
	s.control.count(call)
	if failure := s.fault(r, call); failure != nil {
		writeError(w, r, failure, modern)
		return
	}
	body, err := handle(r)
	if err != nil {
		writeError(w, r, err, modern)
		return
	}
	writeJSON(w, r, http.StatusOK, body)
}

// A handler returns a value to encode, or an *apiError.
type handler func(*http.Request) (any, *apiError)

// route returns the handler of a call, the counter that counts it, and whether its errors use the newer envelope.
func (s *Server) route(method string, segments []string) (callKind, handler, bool) {
	is := func(pattern ...string) bool {
		if len(segments) != len(pattern) {
			return false
		}
		for i, p := range pattern {
			if p != "*" && p != segments[i] {
				return false
			}
		}
		return true
	}
	switch {
	case method == http.MethodPost && is("webmasters", "v3", "sites", "*", "searchAnalytics", "query"):
		return searchCall, s.query, false
	case method == http.MethodPost && is("v1", "urlInspection", "index:inspect"):
		return inspectionCall, s.inspect, true
	case method == http.MethodGet && is("webmasters", "v3", "sites"):
		return sitesCall, s.listSites, false
	case method == http.MethodGet && is("webmasters", "v3", "sites", "*"):
		return sitesCall, s.getSite, false
	case method == http.MethodGet && is("webmasters", "v3", "sites", "*", "sitemaps"):
		return sitemapsCall, s.listSitemaps, false
	case method == http.MethodGet && is("webmasters", "v3", "sites", "*", "sitemaps", "*"):
		return sitemapsCall, s.getSitemap, false
	}
	return uncountedCall, nil, false
}
