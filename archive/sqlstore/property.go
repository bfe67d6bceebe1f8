package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sara/policy"
)

// A Property is one site that a connection can read upstream, including fields that only administration and listings need. Its History
// is that of its ArchiveState.
type Property struct {
	policy.Property
	WorkspaceID     string
	PermissionLevel string // as the upstream names it; empty if unknown
	Starred         bool
	CreatedAt       time.Time
}

const (
	propertyColumns = "p.id, p.workspace_id, c.id, c.revision, c.healthy, c.note, p.site, p.host, p.type," +
		" p.display_name, p.slug, p.permission_level, p.starred, p.archived, p.access_note, p.created_at," +
		" (SELECT first_day FROM archive_states WHERE property_id = p.id)," +
		" (SELECT last_day FROM archive_states WHERE property_id = p.id)"
	selectProperties = "SELECT " + propertyColumns + " FROM properties p JOIN connections c ON c.id = p.connection_id "
	byName           = " ORDER BY p.name_order"

	// mayMean is the condition that a property matches a reference: @lower in lower case, or @written. Each term has an index.
	mayMean = "(p.id = @lower OR p.host = @lower OR p.site = @written OR p.slug = @written)"
)

func scanProperty(row scanner, p *Property) error {
	c := &p.Connection
	var first, last *int32
	err := row.Scan(&p.ID, &p.WorkspaceID, &c.ID, &c.Revision, &c.Healthy, &c.Note, &p.Site, &p.Host, &p.Type,
		&p.DisplayName, &p.Slug, &p.PermissionLevel, &p.Starred, &p.Archived, &p.AccessNote, instant{&p.CreatedAt}, &first, &last)
	if first != nil && last != nil {
		p.History = &policy.DayRange{First: *first, Last: *last}
	}
	return err
}

func (p Property) change(action string) change {
	return change{action: action, subject: p.ID, workspace: p.WorkspaceID, details: details{"site": p.Site, "connection": p.Connection.ID}}
}

// PropertySpec describes a property to add.
type PropertySpec struct {
	Connection      string // a reference to the connection
	Site            string // see ParseSite
	DisplayName     string // empty: the domain or the URL
	Slug            string // empty: derived from Site, with a number if that is in use
	PermissionLevel string // as the upstream names it; may be empty
}

// AddProperty adds a property to a connection.
func (s *Store) AddProperty(ctx context.Context, spec PropertySpec) (p Property, err error) {
	if p, err = newProperty(spec); err != nil {
		return p, err
	}
	defer wrap(&err, "add property %q to connection %q", spec.Site, spec.Connection)
	p.CreatedAt = s.clock()
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		c, err := findConnection(ctx, tx, spec.Connection)
		if err != nil {
			return change{}, err
		}
		p.WorkspaceID = c.WorkspaceID
		p.Connection = c.Connection
		p.Slug, err = firstFree("slug", spec.Slug, deriveSlug(p.Site), maxSlug, func(slug string) (int64, error) {
			p.Slug = slug
			return insertProperty(ctx, tx, p)
		})
		return p.change("property.add"), err
	})
	return p, err
}

// newProperty checks a spec as far as possible without the database.
func newProperty(spec PropertySpec) (p Property, err error) {
	if p.Site, p.Host, p.Type, err = ParseSite(spec.Site); err != nil {
		return Property{}, err
	}
	if p.DisplayName = spec.DisplayName; p.DisplayName == "" {
		p.DisplayName = siteName(p.Site, p.Host, p.Type)
	}
	if err := checkText("property name", p.DisplayName, maxLongName); err != nil {
		return Property{}, err
	}
	if spec.Slug != "" {
		if err := checkSlug(spec.Slug); err != nil {
			return Property{}, err
		}
	}
	if p.PermissionLevel = spec.PermissionLevel; p.PermissionLevel != "" {
		if err := checkText("permission level", p.PermissionLevel, maxName); err != nil {
			return Property{}, err
		}
	}
	p.ID = newID()
	return p, nil
}

// insertProperty returns the number of added rows: 0 if the slug is in use.
func insertProperty(ctx context.Context, tx *sql.Tx, p Property) (int64, error) {
	added, err := affected(ctx, tx, "INSERT INTO properties (id, connection_id, workspace_id, site, host, type, display_name,"+
		" name_order, slug, permission_level, starred, archived, access_note, created_at)"+
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (workspace_id, slug) DO NOTHING",
		p.ID, p.Connection.ID, p.WorkspaceID, p.Site, p.Host, p.Type, p.DisplayName, nameOrder(p.DisplayName, p.ID), p.Slug,
		p.PermissionLevel, p.Starred, p.Archived, p.AccessNote, p.CreatedAt.UnixMilli())
	if isUniqueViolation(err) {
		return 0, &ExistsError{"property", p.Site}
	}
	return added, err
}

// nameOrder is the sort key of properties. Names contain no zero byte, so a name sorts before longer names that start with it.
func nameOrder(displayName, id string) []byte {
	return []byte(strings.ToLower(displayName) + "\x00" + id)
}

// Properties lists the properties of all workspaces ordered by name, including archived ones.
func (s *Store) Properties(ctx context.Context) (_ []Property, err error) {
	defer wrap(&err, "list properties")
	return all(ctx, s.overview, scanProperty, selectProperties+byName)
}

// Property returns the property with this id, upstream property string, slug or host, tried in that order, in any workspace.
func (s *Store) Property(ctx context.Context, reference string) (Property, error) {
	return findProperty(ctx, s.overview, reference)
}

func findProperty(ctx context.Context, q querier, reference string) (Property, error) {
	written := reference
	if site, _, _, err := ParseSite(reference); err == nil {
		written = site
	}
	lower := strings.ToLower(reference)
	candidates, err := all(ctx, q, scanProperty, selectProperties+"WHERE "+mayMean+byName, named{"lower": lower, "written": written})
	if err != nil {
		return Property{}, fmt.Errorf("find property %q: %w", reference, err)
	}
	for _, matches := range []func(Property) bool{
		func(p Property) bool { return p.ID == lower },
		func(p Property) bool { return p.Site == written },
		func(p Property) bool { return p.Slug == reference },
		func(p Property) bool { return p.Host == lower },
	} {
		var matching []Property
		for _, p := range candidates {
			if matches(p) {
				matching = append(matching, p)
			}
		}
		switch len(matching) {
		case 0:
			continue
		case 1:
			return matching[0], nil
		}
		return Property{}, ambiguousProperty(reference, matching)
	}
	return Property{}, &NotFoundError{"property", reference}
}

func ambiguousProperty(reference string, matching []Property) error {
	err := &AmbiguousError{Kind: "property", Reference: reference}
	for _, p := range matching {
		err.Candidates = append(err.Candidates, Candidate{p.ID, p.Site})
	}
	return err
}

// SetArchived archives a property, so only its archived history is served, or unarchives it.
func (s *Store) SetArchived(ctx context.Context, property string, archived bool) (Property, error) {
	action := "property.archive"
	if !archived {
		action = "property.restore"
	}
	return s.setFlag(ctx, property, action, "UPDATE properties SET archived = $1 WHERE id = $2", archived)
}

// SetStarred stars a property, or removes the star.
func (s *Store) SetStarred(ctx context.Context, property string, starred bool) (Property, error) {
	action := "property.star"
	if !starred {
		action = "property.unstar"
	}
	return s.setFlag(ctx, property, action, "UPDATE properties SET starred = $1 WHERE id = $2", starred)
}

func (s *Store) setFlag(ctx context.Context, property, action, update string, value bool) (p Property, err error) {
	defer wrap(&err, "change property %q", property)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		if p, err = findProperty(ctx, tx, property); err != nil {
			return change{}, err
		}
		if _, err = tx.ExecContext(ctx, update, value, p.ID); err != nil {
			return change{}, err
		}
		p, err = findProperty(ctx, tx, p.ID)
		return p.change(action), err
	})
	return p, err
}

// SetPropertyAccess records why the upstream denies access to a property, or with an empty note that it allows it. changed reports a
// transition: if many replicas see the same refusal, only one gets true. A property without access keeps its first note.
func (s *Store) SetPropertyAccess(ctx context.Context, propertyID, note string) (changed bool, err error) {
	return s.transition(ctx, "property", propertyID, "SELECT count(*) FROM properties WHERE id = $1",
		"UPDATE properties SET access_note = $1 WHERE id = $2 AND (access_note = '') <> ($1 = '')", cleanNote(note), propertyID)
}
