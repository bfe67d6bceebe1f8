package gscsim

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// siteURLOf returns the property in the path of a call; empty if there is none.
func siteURLOf(r *http.Request) string { return segment(r, 3) }

// segment returns one unescaped segment of the path.
func segment(r *http.Request, n int) string {
	parts := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if n >= len(parts) {
		return ""
	}
	text, err := url.PathUnescape(parts[n])
	if err != nil {
		return parts[n]
	}
	return text
}

// authorize returns the user of a call and the site in its path.
func (s *Server) authorize(r *http.Request) (*User, Site, *apiError) {
	user, fail := s.authenticate(r)
	if fail != nil {
		return nil, Site{}, fail
	}
	siteURL := siteURLOf(r)
	if !validSiteURL(siteURL) {
		return nil, Site{}, invalid("siteUrl", "'%s' is not a valid Search Console site URL", siteURL)
	}
	site, ok := user.site(siteURL)
	if !ok {
		return nil, Site{}, forbiddenSite(siteURL)
	}
	return user, site, nil
}

func validSiteURL(text string) bool {
	if domain, ok := strings.CutPrefix(text, "sc-domain:"); ok {
		return domain != "" && !strings.ContainsAny(domain, "/: ")
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func (u *User) site(siteURL string) (Site, bool) {
	i := slices.IndexFunc(u.Sites, func(s Site) bool { return s.URL == siteURL })
	if i < 0 {
		return Site{}, false
	}
	site := u.Sites[i]
	site.Permission = cmp.Or(site.Permission, Owner)
	return site, true
}

// Pages returns the URLs of a site, most popular first, in a slice that the caller owns; nil if no user has the site.
func (s *Server) Pages(siteURL string) []string {
	site, ok := s.anySite(siteURL)
	if !ok {
		return nil
	}
	w := s.world(site)
	pages := make([]string, len(w.pages))
	for rank, page := range w.pageByRank {
		pages[rank] = w.pages[page]
	}
	return pages
}

// anySite returns a site as its first user sees it.
func (s *Server) anySite(siteURL string) (Site, bool) {
	for i := range s.config.Users {
		if site, ok := s.config.Users[i].site(siteURL); ok {
			return site, true
		}
	}
	return Site{}, false
}

type siteEntry struct {
	SiteURL         string `json:"siteUrl"`
	PermissionLevel string `json:"permissionLevel"`
}

func (s *Server) listSites(r *http.Request) (any, *apiError) {
	user, fail := s.authenticate(r)
	if fail != nil {
		return nil, fail
	}
	var answer struct {
		SiteEntry []siteEntry `json:"siteEntry,omitempty"`
	}
	for _, listed := range user.Sites {
		site, _ := user.site(listed.URL)
		answer.SiteEntry = append(answer.SiteEntry, siteEntry{site.URL, site.Permission})
	}
	return answer, nil
}

func (s *Server) getSite(r *http.Request) (any, *apiError) {
	_, site, fail := s.authorize(r)
	if fail != nil {
		return nil, fail
	}
	return siteEntry{site.URL, site.Permission}, nil
}

// readableSite returns the site in the path of a call that reads its data, which an unverified user cannot.
func (s *Server) readableSite(r *http.Request) (Site, *apiError) {
	_, site, fail := s.authorize(r)
	if fail == nil && site.Permission == UnverifiedUser {
		fail = forbiddenSite(site.URL)
	}
	return site, fail
}
