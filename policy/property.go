package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// A Property is one site in Search Console that a caller can reach, and the connection that reads it. A Property that Gate
// returns is shared between requests: read only.
type Property struct {
	ID          string // a UUID in lower case
	Site        string // its full name upstream: sc-domain:example.com or https://www.example.com/path/
	Host        string // the host or domain of Site, in lower case and without a port
	Type        string // DomainProperty or URLPrefixProperty
	DisplayName string
	Slug        string    // unique in its workspace
	Archived    bool      // its owner has archived it: only its history is served
	AccessNote  string    // why the upstream denies access to this property; empty if it does not
	History     *DayRange // first and last day in sara's archive; nil while there is none
	Connection  Connection
}

// The types of a Property.
const (
	DomainProperty    = "domain"
	URLPrefixProperty = "url_prefix"
)

// A DayRange is a range of days, both included, numbered since 1970-01-01.
type DayRange struct{ First, Last int32 }

// A Connection is a stored upstream credential, without the credential.
type Connection struct {
	ID       string
	Revision int    // incremented when the credential is replaced
	Healthy  bool   // false after the upstream has rejected the credential
	Note     string // why it is not healthy
}

// AccessProblem returns why the upstream denies access to the property or to its whole connection; empty if it does not.
func (p *Property) AccessProblem() string {
	if !p.Connection.Healthy {
		return p.Connection.Note
	}
	return p.AccessNote
}

// propertyQuery holds the arguments of Directory.FindProperties, as a cache key.
type propertyQuery struct {
	personID, workspaceID, reference string
}

// maxReferenceLength bounds what the gate caches; every valid reference is far shorter.
const maxReferenceLength = 2048

// Property resolves a reference among the properties that the caller of an admitted request can reach. The gate caches both:
// the property is shared between requests, read only, and the reference's buffer must not be reused.
func (g *Gate) Property(ctx context.Context, grant *Grant, reference string) (*Property, error) {
	if len(reference) > maxReferenceLength {
		return nil, notFound(reference)
	}
	candidates, err := g.properties.get(ctx, propertyQuery{grant.Key.PersonID, grant.WorkspaceID(), foldHost(reference)}, grant.version)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return nil, fmt.Errorf("look up a property: %w", err)
	}
	property, denial := resolve(reference, candidates)
	if denial != nil {
		return nil, denial
	}
	return property, nil
}

// loadProperties turns an empty result into ErrUnknown, so that it is cached like an unknown key (negative cache).
func (g *Gate) loadProperties(ctx context.Context, q propertyQuery) ([]Property, error) {
	found, err := g.config.Directory.FindProperties(ctx, q.personID, q.workspaceID, q.reference)
	if err == nil && len(found) == 0 {
		err = ErrUnknown
	}
	return found, err
}

// foldHost returns a reference with what is not case-sensitive in a full upstream name in lower case, as in Property.Site: the
// scheme and the host, or a whole domain. Paths are case-sensitive. Other references stay as they are.
func foldHost(reference string) string {
	const domain = "sc-domain:"
	if len(reference) >= len(domain) && strings.EqualFold(reference[:len(domain)], domain) {
		return strings.ToLower(reference)
	}
	scheme, rest, ok := strings.Cut(reference, "://")
	if !ok {
		return reference
	}
	host, path, found := strings.Cut(rest, "/")
	folded := strings.ToLower(scheme) + "://" + strings.ToLower(host)
	if !found {
		return folded
	}
	return folded + "/" + path
}

// resolve picks the property that a reference means from the candidates. It tries id, full upstream name, slug and host, in this order,
// and stops at the first that matches any candidate. A bare host matches every property of that host, whatever its type. An archived
// property counts only where no other matches. If there are several candidates, the result is a copy, so that a
// caller that keeps it does not keep the others in memory.
func resolve(reference string, candidates []Property) (*Property, *Denial) {
	site := foldHost(reference)
	for _, matches := range []func(p *Property) bool{
		func(p *Property) bool { return strings.EqualFold(p.ID, reference) },
		func(p *Property) bool { return p.Site == site },
		func(p *Property) bool { return p.Slug == reference },
		func(p *Property) bool { return strings.EqualFold(p.Host, reference) },
	} {
		var found []*Property
		for i := range candidates {
			if matches(&candidates[i]) {
				found = append(found, &candidates[i])
			}
		}
		if slices.ContainsFunc(found, func(p *Property) bool { return !p.Archived }) {
			found = slices.DeleteFunc(found, func(p *Property) bool { return p.Archived })
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			if len(candidates) == 1 {
				return found[0], nil
			}
			property := *found[0]
			return &property, nil
		}
		return nil, ambiguous(reference, found)
	}
	return nil, notFound(reference)
}

// notFound reads the same whether the property does not exist or belongs to someone else (spec: Authentication 8).
func notFound(reference string) *Denial {
	if site, ok := asciiForm(reference); ok {
		return deny(CodeNotFound, "there is no property %.100q that this key can reach; Search Console names an international domain in ASCII: %.300q",
			reference, site)
	}
	return deny(CodeNotFound, "there is no property %.100q that this key can reach", reference)
}

// asciiForm returns a reference with its international domain in ASCII (xn--), as it is in Property.Site; ok is false if it has none.
func asciiForm(reference string) (site string, ok bool) {
	const longest = 253 // bytes of a domain; bounds the work for a request that finds nothing
	_, rest, found := strings.Cut(reference, ":")
	if !found {
		rest = reference
	}
	rest = strings.TrimPrefix(rest, "//")
	host := rest
	if end := strings.IndexAny(rest, ":/"); end >= 0 {
		host = rest[:end]
	}
	isASCII := !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf })
	if isASCII || len(host) > longest || !utf8.ValidString(host) {
		return "", false
	}
	ascii, err := idna.Lookup.ToASCII(host)
	return strings.TrimSuffix(reference, rest) + ascii + rest[len(host):], err == nil && strings.Contains(ascii, ".")
}

func ambiguous(reference string, found []*Property) *Denial {
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.ID
	}
	return deny(CodePropertyAmbiguous, "%.100q matches %d properties: use one of the ids %s", reference, len(found), strings.Join(ids, ", "))
}
