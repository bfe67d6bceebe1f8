package admin

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"sara/archive/sqlstore"
)

// IsPattern reports whether a reference means all properties that match it. No property's name has a star.
func IsPattern(reference string) bool { return strings.Contains(reference, "*") }

// Matches reports whether one of the names matches a pattern, in which a star stands for any text, regardless of case.
func Matches(pattern string, names ...string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	form := regexp.MustCompile("(?is)^" + strings.Join(parts, ".*") + "$")
	return slices.ContainsFunc(names, form.MatchString)
}

// matchesAny reports whether a site, or its host, matches one of the patterns, or there is none.
func matchesAny(patterns []string, site string) bool {
	_, host, _, _ := sqlstore.ParseSite(site) // empty if it is malformed
	for _, pattern := range patterns {
		if Matches(pattern, site, host) {
			return true
		}
	}
	return len(patterns) == 0
}

// Properties returns the property that a reference names, or all whose Search Console property, host or slug match it if it is a
// pattern.
func (a Admin) Properties(ctx context.Context, reference string) ([]sqlstore.Property, error) {
	if !IsPattern(reference) {
		p, err := a.Store.Property(ctx, reference)
		return []sqlstore.Property{p}, err
	}
	all, err := a.Store.Properties(ctx)
	if err != nil {
		return nil, err
	}
	matching := []sqlstore.Property{}
	for _, p := range all {
		if Matches(reference, p.Site, p.Host, p.Slug) {
			matching = append(matching, p)
		}
	}
	if len(matching) == 0 {
		return nil, &sqlstore.NotFoundError{Kind: "property", Reference: reference}
	}
	return matching, nil
}
