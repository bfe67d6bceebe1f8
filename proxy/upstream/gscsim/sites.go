package gscsim

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// siteURLOf is the property that the path of a call names, empty if it names none.
func siteURLOf(r *http.Request) string { return segment(r, 3) }

// segment is one unescaped segment of the path.
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

// authorize finds the user of a call and the site that its path names.
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
	if site.Permission == "" {
		site.Permission = Owner
	}
	return site, true
}

// Pages are the addresses of a site, by falling popularity, in a slice of the caller's own; nil if no user has the site.
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

// anySite returns a site as the first user that has it sees it.
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

// refuseWrite answers the calls that change something: every token here is read-only.
func (s *Server) refuseWrite(r *http.Request) (any, *apiError) {
	if _, fail := s.authenticate(r); fail != nil {
		return nil, fail
	}
	return nil, insufficientScope()
}

type sitemap struct {
	Path            string           `json:"path"`
	LastSubmitted   string           `json:"lastSubmitted"`
	IsPending       bool             `json:"isPending"`
	IsSitemapsIndex bool             `json:"isSitemapsIndex"`
	Type            string           `json:"type,omitempty"`
	LastDownloaded  string           `json:"lastDownloaded,omitempty"`
	Warnings        int64            `json:"warnings,string"`
	Errors          int64            `json:"errors,string"`
	Contents        []sitemapContent `json:"contents,omitempty"`
}

type sitemapContent struct {
	Type      string `json:"type"`
	Submitted int64  `json:"submitted,string"`
	Indexed   int64  `json:"indexed,string"`
}

// sitemapPaths are the submitted sitemaps of a site. Without configured ones the first is the index of the others.
func (site Site) sitemapPaths() []string {
	if site.Sitemaps != nil {
		return site.Sitemaps
	}
	root := siteRoot(site.URL)
	return []string{root + "sitemap_index.xml", root + "sitemap-pages.xml", root + "sitemap-posts.xml"}
}

// sitemaps describes the submitted sitemaps; the pages of the site are spread over those that are no index.
func (s *Server) sitemaps(site Site) []sitemap {
	paths := site.sitemapPaths()
	w := s.world(site)
	answer := make([]sitemap, 0, len(paths))
	for i, path := range paths {
		h := hashText(w.seed, path)
		m := sitemap{
			Path: path, Type: "sitemap", IsSitemapsIndex: site.Sitemaps == nil && i == 0,
			IsPending:      h%9 == 0,
			LastSubmitted:  s.recurring(h, 200*24*time.Hour).Format(time.RFC3339Nano),
			LastDownloaded: s.recurring(mix(h), 3*24*time.Hour).Format(time.RFC3339Nano),
			Warnings:       int64(h >> 8 % 4),
		}
		submitted := int64(len(w.pages))
		if site.Sitemaps == nil && i > 0 {
			submitted = (submitted + int64(i) - 1) / 2
		}
		m.Contents = []sitemapContent{{Type: "web", Submitted: submitted}}
		answer = append(answer, m)
	}
	return answer
}

// recurring is the last moment, in whole milliseconds, at which something happened that happens once in a period.
func (s *Server) recurring(h uint64, period time.Duration) time.Time {
	now := s.config.Now().UTC().Truncate(time.Millisecond)
	phase := time.Duration(h % uint64(period)).Truncate(time.Millisecond)
	return now.Add(-((time.Duration(now.UnixMilli())*time.Millisecond + phase) % period))
}

// listSitemaps lists all sitemaps, or with the sitemapIndex parameter those that this index names.
func (s *Server) listSitemaps(r *http.Request) (any, *apiError) {
	site, fail := s.readableSite(r)
	if fail != nil {
		return nil, fail
	}
	all := s.sitemaps(site)
	if index := r.URL.Query().Get("sitemapIndex"); index != "" {
		isIndex := slices.ContainsFunc(all, func(m sitemap) bool { return m.Path == index && m.IsSitemapsIndex })
		all = slices.DeleteFunc(all, func(m sitemap) bool { return !isIndex || m.IsSitemapsIndex })
	}
	return struct {
		Sitemap []sitemap `json:"sitemap,omitempty"`
	}{all}, nil
}

func (s *Server) getSitemap(r *http.Request) (any, *apiError) {
	site, fail := s.readableSite(r)
	if fail != nil {
		return nil, fail
	}
	path := segment(r, 5)
	all := s.sitemaps(site)
	if i := slices.IndexFunc(all, func(m sitemap) bool { return m.Path == path }); i >= 0 {
		return all[i], nil
	}
	return nil, notFound("'%s' is not a sitemap that was submitted for '%s'.", path, site.URL)
}

// readableSite is the site of a call about its data: an unverified user sees none.
func (s *Server) readableSite(r *http.Request) (Site, *apiError) {
	_, site, fail := s.authorize(r)
	if fail == nil && site.Permission == UnverifiedUser {
		fail = forbiddenSite(site.URL)
	}
	return site, fail
}
