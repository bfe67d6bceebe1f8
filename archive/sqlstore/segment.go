package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"sara/translate"
)

const (
	selectBrandTerms = "SELECT id, term, match_type, created_at FROM brand_terms WHERE property_id = $1 ORDER BY place"
	selectPageGroups = "SELECT id, name, rules, created_at FROM page_groups WHERE property_id = $1 ORDER BY place"
)

func scanBrandTerm(row scanner, t *translate.BrandTerm) error {
	return row.Scan(&t.ID, &t.Term, &t.MatchType, instant{&t.CreatedAt})
}

func scanPageGroup(row scanner, g *translate.PageGroup) error {
	var rules []byte
	if err := row.Scan(&g.ID, &g.Name, &rules, instant{&g.CreatedAt}); err != nil {
		return err
	}
	if err := json.Unmarshal(rules, &g.Rules); err != nil {
		return fmt.Errorf("stored rules of page group %s: %w", g.ID, err)
	}
	return nil
}

// BrandTerms returns the brand terms of a property in the order in which they were set.
func (s *Store) BrandTerms(ctx context.Context, propertyID string) (_ []translate.BrandTerm, err error) {
	defer wrap(&err, "read the brand terms of property %s", propertyID)
	return all(ctx, s.segments, scanBrandTerm, selectBrandTerms, propertyID)
}

// SetBrandTerms replaces the brand terms of a property and returns them as stored. Of the given terms, only Term and MatchType are
// used. A term that already exists keeps its ID and its time.
func (s *Store) SetBrandTerms(ctx context.Context, property string, terms []translate.BrandTerm) (_ []translate.BrandTerm, err error) {
	if err := checkBrandTerms(terms); err != nil {
		return nil, err
	}
	defer wrap(&err, "set the brand terms of property %q", property)
	return segmentTable[translate.BrandTerm]{
		name: "brand_terms", items: "terms", list: selectBrandTerms, scan: scanBrandTerm,
		put: "INSERT INTO brand_terms (id, property_id, place, created_at, term, match_type) VALUES ($1, $2, $3, $4, $5, $6)" +
			" ON CONFLICT (property_id, match_type, term) DO UPDATE SET place = excluded.place",
		args: func(t translate.BrandTerm) ([]any, error) { return []any{t.Term, t.MatchType}, nil },
	}.replace(ctx, s, property, terms)
}

func checkBrandTerms(terms []translate.BrandTerm) error {
	type identity struct{ matchType, term string }
	seen := make(map[identity]bool, len(terms))
	for _, t := range terms {
		switch t.MatchType {
		case "contains", "exact", "regex":
		default:
			return &InputError{"brand terms", fmt.Sprintf("match type %q of %q is not contains, exact or regex", t.MatchType, t.Term)}
		}
		if err := checkFreeText("brand terms", t.Term, 1, translate.MaxSegmentValue); err != nil {
			return err
		}
		if strings.TrimSpace(t.Term) == "" {
			return &InputError{"brand terms", "a term of only spaces would match every query with a space"}
		}
		if seen[identity{t.MatchType, t.Term}] {
			return &InputError{"brand terms", fmt.Sprintf("%q is given twice", t.Term)}
		}
		seen[identity{t.MatchType, t.Term}] = true
	}
	if err := translate.CheckBrandTerms(terms); err != nil {
		return &InputError{"brand terms", err.Error()}
	}
	return nil
}

// PageGroups returns the page groups of a property in the order in which they were set.
func (s *Store) PageGroups(ctx context.Context, propertyID string) (_ []translate.PageGroup, err error) {
	defer wrap(&err, "read the page groups of property %s", propertyID)
	return all(ctx, s.segments, scanPageGroup, selectPageGroups, propertyID)
}

// SetPageGroups replaces the page groups of a property and returns them as stored. Of the given groups, only Name and Rules are
// used. A group whose name already exists keeps its ID and its time.
func (s *Store) SetPageGroups(ctx context.Context, property string, groups []translate.PageGroup) (_ []translate.PageGroup, err error) {
	if err := translate.CheckPageGroups(groups); err != nil {
		return nil, &InputError{"page groups", err.Error()}
	}
	defer wrap(&err, "set the page groups of property %q", property)
	return segmentTable[translate.PageGroup]{
		name: "page_groups", items: "groups", list: selectPageGroups, scan: scanPageGroup,
		put: "INSERT INTO page_groups (id, property_id, place, created_at, name, rules) VALUES ($1, $2, $3, $4, $5, $6)" +
			" ON CONFLICT (property_id, name) DO UPDATE SET place = excluded.place, rules = excluded.rules",
		args: func(g translate.PageGroup) ([]any, error) {
			rules, err := json.Marshal(g.Rules)
			return []any{g.Name, string(rules)}, err
		},
	}.replace(ctx, s, property, groups)
}

// A segmentTable has a list of segments for each property.
type segmentTable[T any] struct {
	name  string // also of the action in the audit log
	items string // what the audit log calls the number of segments
	list  string // the query of the segments of a property, in order
	scan  func(scanner, *T) error
	put   string                 // the statement that adds a segment at a place, or moves the one that exists
	args  func(T) ([]any, error) // of put, after the id, the property, the place and the time
}

// replace replaces the segments of a property, and returns them as stored.
func (t segmentTable[T]) replace(ctx context.Context, s *Store, property string, segments []T) (stored []T, err error) {
	now := s.clock().UnixMilli()
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, _, err := lockProperty(ctx, tx, property) // of two lists that are set at the same time, one remains
		if err != nil {
			return change{}, err
		}
		// Segments that are not given again keep the place -1, and are deleted below.
		if _, err := tx.ExecContext(ctx, "UPDATE "+t.name+" SET place = -1 WHERE property_id = $1", p.ID); err != nil {
			return change{}, err
		}
		for place, segment := range segments {
			args, err := t.args(segment)
			if err == nil {
				_, err = tx.ExecContext(ctx, t.put, append([]any{newID(), p.ID, place, now}, args...)...)
			}
			if err != nil {
				return change{}, err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+t.name+" WHERE property_id = $1 AND place < 0", p.ID); err != nil {
			return change{}, err
		}
		stored, err = all(ctx, tx, t.scan, t.list, p.ID)
		return change{action: t.name + ".set", subject: p.ID, workspace: p.WorkspaceID, details: details{"site": p.Site, t.items: len(segments)}}, err
	})
	return stored, err
}
