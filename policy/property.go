package policy

import "strings"

// A Property is one site that a caller can reach, and the upstream connection that reads it.
type Property struct {
	ID          string
	Site        string // the full upstream string: sc-domain:example.com or https://www.example.com/path/
	Host        string // its host name, in lower case
	Type        string // domain or url_prefix
	DisplayName string
	Slug        string
	Archived    bool
	AccessNote  string    // why the upstream refuses this one property; empty when it does not
	History     *DayRange // what is archived of it; nil for nothing
	Connection  Connection
}

// Days are the first and the last day of a stretch, in days since 1970-01-01.
type DayRange struct{ First, Last int32 }

// A Connection is one stored upstream credential.
type Connection struct {
	ID       string
	Revision int // grows when its credential is replaced
	Healthy  bool
	Note     string // why it is not healthy
}

// Trouble returns why the upstream last refused the property or its whole connection, empty when it did not.
func (p *Property) AccessProblem() string {
	if !p.Connection.Healthy {
		return p.Connection.Note
	}
	return p.AccessNote
}

// resolve picks from the candidates the property that reference means: by id, by full upstream string, by slug, by domain,
// the first of these that matches any. A bare domain means every property of that host, whatever its type.
// It points into the candidates.
func resolve(reference string, candidates []Property) (*Property, *Denial) {
	for _, matches := range []func(p *Property) bool{
		func(p *Property) bool { return strings.EqualFold(p.ID, reference) },
		func(p *Property) bool {
			return p.Site == reference || isDomain(p.Type) && strings.EqualFold(p.Site, reference)
		},
		func(p *Property) bool { return p.Slug == reference },
		func(p *Property) bool { return strings.EqualFold(p.Host, reference) },
	} {
		var found []*Property
		for i := range candidates {
			if matches(&candidates[i]) {
				found = append(found, &candidates[i])
			}
		}
		switch len(found) {
		case 0:
			continue
		case 1:
			return found[0], nil
		}
		return nil, ambiguous(reference, found)
	}
	return nil, notFound(reference)
}

// notFound has the same words whether the property does not exist or is somebody else's (spec: Authentication 8).
func notFound(reference string) *Denial {
	return deny(CodeNotFound, "there is no property %.100q that this key can reach", reference)
}

func isDomain(propertyType string) bool { return propertyType == "domain" }

func ambiguous(reference string, found []*Property) *Denial {
	ids := make([]string, len(found))
	for i, p := range found {
		ids[i] = p.ID
	}
	return deny(CodePropertyAmbiguous, "%.100q means %d properties: use one of the ids %s", reference, len(found), strings.Join(ids, ", "))
}
