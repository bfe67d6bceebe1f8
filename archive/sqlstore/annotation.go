package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"sara/translate"
)

// An Annotation is a dated note on a property.
type Annotation struct {
	ID        string
	Date      translate.Date
	Title     string // 1 to 200 characters
	Note      string // may be empty
	Color     string // a name from a small set, or #rrggbb
	CreatedAt time.Time
}

const defaultColor = "blue"

const selectAnnotations = "SELECT id, day, title, note, color, created_at FROM annotations" +
	" WHERE property_id = $1 AND day >= $2 AND day <= $3 ORDER BY day, created_at, id"

func scanAnnotation(row scanner, a *Annotation) error {
	return row.Scan(&a.ID, &a.Date, &a.Title, &a.Note, &a.Color, instant{&a.CreatedAt})
}

// AddAnnotation adds an annotation with the Date, Title, Note and Color of a to a property, and returns it as stored. The default
// color is blue.
func (s *Store) AddAnnotation(ctx context.Context, property string, a Annotation) (_ Annotation, err error) {
	a.Color = cmp.Or(a.Color, defaultColor)
	if err := checkAnnotation(a); err != nil {
		return a, err
	}
	defer wrap(&err, "annotate property %q", property)
	a.ID, a.CreatedAt = newID(), s.clock()
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findProperty(ctx, tx, property)
		if err != nil {
			return change{}, err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO annotations (id, property_id, day, title, note, color, created_at)"+
			" VALUES ($1, $2, $3, $4, $5, $6, $7)",
			a.ID, p.ID, a.Date, a.Title, a.Note, a.Color, a.CreatedAt.UnixMilli())
		return a.change("annotation.add", p.WorkspaceID, p.Site), err
	})
	return a, err
}

// Annotations returns the annotations of a property from one date to another, both inclusive and optional. They are ordered by
// date, then in the order they were added.
func (s *Store) Annotations(ctx context.Context, propertyID string, from, to *translate.Date) (_ []Annotation, err error) {
	defer wrap(&err, "read the annotations of property %s", propertyID)
	first, last := translate.NewDate(1, time.January, 1), translate.NewDate(9999, time.December, 31)
	if from != nil {
		first = *from
	}
	if to != nil {
		last = *to
	}
	return all(ctx, s.annotations, scanAnnotation, selectAnnotations, propertyID, first, last)
}

// RemoveAnnotation removes an annotation by its id.
func (s *Store) RemoveAnnotation(ctx context.Context, id string) (err error) {
	defer wrap(&err, "remove annotation %q", id)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		removed, err := find(ctx, tx, func(row scanner, c *change) error {
			var workspace, site string
			a := Annotation{ID: id}
			err := row.Scan(&workspace, &site, &a.Date, &a.Title)
			*c = a.change("annotation.remove", workspace, site)
			return err
		}, &NotFoundError{"annotation", id},
			"SELECT p.workspace_id, p.site, a.day, a.title FROM annotations a JOIN properties p ON p.id = a.property_id WHERE a.id = $1", id)
		if err != nil {
			return change{}, err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM annotations WHERE id = $1", id)
		return removed, err
	})
}

// change is the entry of the audit log about an annotation of a property.
func (a Annotation) change(action, workspace, site string) change {
	return change{action: action, subject: a.ID, workspace: workspace,
		details: details{"property": site, "date": a.Date.String(), "title": a.Title}}
}

func checkAnnotation(a Annotation) error {
	if err := checkText("title", a.Title, maxLongName); err != nil {
		return err
	}
	if err := checkFreeText("note", a.Note, 0, maxNote); err != nil {
		return err
	}
	switch a.Color {
	case "red", "orange", "yellow", "green", defaultColor, "purple", "pink", "gray":
		return nil
	}
	if digits, ok := strings.CutPrefix(a.Color, "#"); ok && len(digits) == 6 && strings.Trim(digits, "0123456789abcdefABCDEF") == "" {
		return nil
	}
	return &InputError{"color", fmt.Sprintf("%q is not red, orange, yellow, green, blue, purple, pink, gray or #rrggbb", a.Color)}
}
