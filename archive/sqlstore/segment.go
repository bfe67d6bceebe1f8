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
func (s *Store) SetBrandTerms(ctx context.Context, property string, terms []translate.BrandTerm) ([]translate.BrandTerm, error) {
	if err := checkBrandTerms(terms); err != nil {
		return nil, err
	}
	now := s.clock().UnixMilli()
	var stored []translate.BrandTerm
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, _, err := lockProperty(ctx, tx, property) // of two lists that are set at the same time, one remains
		if err != nil {
			return change{}, err
		}
		// Terms that are not given again keep the place -1, and are deleted below.
		if _, err := tx.ExecContext(ctx, "UPDATE brand_terms SET place = -1 WHERE property_id = $1", p.ID); err != nil {
			return change{}, err
		}
		for place, t := range terms {
			_, err = tx.ExecContext(ctx, "INSERT INTO brand_terms (id, property_id, place, term, match_type, created_at)"+
				" VALUES ($1, $2, $3, $4, $5, $6)"+
				" ON CONFLICT (property_id, match_type, term) DO UPDATE SET place = excluded.place",
				newID(), p.ID, place, t.Term, t.MatchType, now)
			if err != nil {
				return change{}, err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM brand_terms WHERE property_id = $1 AND place < 0", p.ID); err != nil {
			return change{}, err
		}
		stored, err = all(ctx, tx, scanBrandTerm, selectBrandTerms, p.ID)
		return change{action: "brand_terms.set", subject: p.ID, workspace: p.WorkspaceID, details: details{"site": p.Site, "terms": len(terms)}}, err
	})
	if err != nil {
		return nil, fmt.Errorf("set the brand terms of property %q: %w", property, err)
	}
	return stored, nil
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
func (s *Store) SetPageGroups(ctx context.Context, property string, groups []translate.PageGroup) ([]translate.PageGroup, error) {
	if err := translate.CheckPageGroups(groups); err != nil {
		return nil, &InputError{"page groups", err.Error()}
	}
	now := s.clock().UnixMilli()
	var stored []translate.PageGroup
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, _, err := lockProperty(ctx, tx, property) // of two lists that are set at the same time, one remains
		if err != nil {
			return change{}, err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE page_groups SET place = -1 WHERE property_id = $1", p.ID); err != nil {
			return change{}, err
		}
		for place, g := range groups {
			if err := putPageGroup(ctx, tx, p.ID, place, g, now); err != nil {
				return change{}, err
			}
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM page_groups WHERE property_id = $1 AND place < 0", p.ID); err != nil {
			return change{}, err
		}
		stored, err = all(ctx, tx, scanPageGroup, selectPageGroups, p.ID)
		return change{action: "page_groups.set", subject: p.ID, workspace: p.WorkspaceID, details: details{"site": p.Site, "groups": len(groups)}}, err
	})
	if err != nil {
		return nil, fmt.Errorf("set the page groups of property %q: %w", property, err)
	}
	return stored, nil
}

func putPageGroup(ctx context.Context, tx *sql.Tx, propertyID string, place int, g translate.PageGroup, now int64) error {
	rules, err := json.Marshal(g.Rules)
	if err != nil {
		return fmt.Errorf("write the rules of page group %q: %w", g.Name, err)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO page_groups (id, property_id, place, name, rules, created_at)"+
		" VALUES ($1, $2, $3, $4, $5, $6)"+
		" ON CONFLICT (property_id, name) DO UPDATE SET place = excluded.place, rules = excluded.rules",
		newID(), propertyID, place, g.Name, string(rules), now)
	return err
}
