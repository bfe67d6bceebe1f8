package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// An IndexState is how far the collection of a property's index coverage has come.
type IndexState struct {
	PropertyID    string
	DiscoveredAt  *time.Time // when its URLs were last discovered; nil for never
	Source        string     // where they were found, see Discovery; empty when nothing was found
	URLs          int        // tracked
	Capped        bool       // there were more than the plan allows
	InspectedAt   *time.Time // when the last run began that inspected all that was due; nil for never
	RefreshedAt   *time.Time // when results were last published; nil for never
	CooldownUntil *time.Time // until when its site is not to be called; nil when it may be
	Failures      int        // runs that have failed since the last that did not
	Note          string     // why the last run failed, for people; empty if it did not
}

const (
	indexStateColumns = "s.discovered_at, coalesce(s.source, ''), coalesce(s.urls, 0), coalesce(s.capped, FALSE)," +
		" s.inspected_at, s.refreshed_at, s.rests_until, coalesce(s.failures, 0), coalesce(s.note, '')"
	selectIndexState = "SELECT " + indexStateColumns + " FROM index_states s WHERE s.property_id = $1"

	// The number that $1, the id of a property, stands for in the tables of results.
	indexNumber = "(SELECT number FROM index_states WHERE property_id = $1)"
)

// fields are where a row of indexStateColumns goes.
func (i *IndexState) fields() []any {
	return []any{optionalInstant{&i.DiscoveredAt}, &i.Source, &i.URLs, &i.Capped, optionalInstant{&i.InspectedAt},
		optionalInstant{&i.RefreshedAt}, optionalInstant{&i.CooldownUntil}, &i.Failures, &i.Note}
}

// IndexState returns what is known of a property's coverage; nothing but its PropertyID when nobody has collected it yet.
func (s *Store) IndexState(ctx context.Context, propertyID string) (IndexState, error) {
	state, err := readIndexState(ctx, s.db, propertyID)
	if err != nil {
		return IndexState{}, fmt.Errorf("read the state of the coverage of property %s: %w", propertyID, err)
	}
	return state, nil
}

func readIndexState(ctx context.Context, q querier, propertyID string) (IndexState, error) {
	state, err := one(ctx, q, func(row scanner) (i IndexState, err error) {
		err = row.Scan(i.fields()...)
		return i, err
	}, selectIndexState, propertyID)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	state.PropertyID = propertyID
	return state, err
}

// SaveIndexRun replaces what is known of the last runs for a property: InspectedAt, CooldownUntil, Failures and Note, which is
// made fit to be stored. The rest of the state comes with what is discovered and published. Generation stays as it is.
func (s *Store) SaveIndexRun(ctx context.Context, i IndexState) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	err := s.openIndex(ctx, i.PropertyID)
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE index_states SET inspected_at = $1, rests_until = $2, failures = $3, note = $4"+
			" WHERE property_id = $5", optionalMillis(i.InspectedAt), optionalMillis(i.CooldownUntil), i.Failures, cleanNote(i.Note),
			i.PropertyID)
	}
	if err != nil {
		return fmt.Errorf("save the state of the coverage of property %s: %w", i.PropertyID, err)
	}
	return nil
}

// openIndex gives a property a number unless it has one.
func (s *Store) openIndex(ctx context.Context, propertyID string) error {
	_, err := s.number(ctx, "SELECT number FROM index_states WHERE property_id = $1", "INSERT INTO index_states"+
		" (property_id, number) VALUES ($1, (SELECT coalesce(max(number), 0) + 1 FROM index_states)) ON CONFLICT DO NOTHING", propertyID)
	return err
}

// number returns the number that find selects. If there is none, add inserts one, unless somebody else has taken the same
// number: then the next one may be free.
func (s *Store) number(ctx context.Context, find, add, key string, rest ...any) (int32, error) {
	for {
		n, err := one(ctx, s.db, scalar[int32], find, key)
		if !errors.Is(err, sql.ErrNoRows) {
			return n, err
		}
		if _, err := s.db.ExecContext(ctx, add, append([]any{key}, rest...)...); err != nil {
			return 0, err
		}
	}
}

// An InspectableProperty is a property with what collecting its coverage needs to know besides.
type InspectableProperty struct {
	Property
	Plan  string     // of the account that its workspace belongs to
	Index IndexState // only its PropertyID is set when nobody has collected it yet
}

const selectInspectable = "SELECT " + propertyColumns + ", a.plan, " + indexStateColumns +
	" FROM properties p JOIN connections c ON c.id = p.connection_id" +
	" JOIN workspaces w ON w.id = p.workspace_id JOIN accounts a ON a.id = w.account_id" +
	" LEFT JOIN index_states s ON s.property_id = p.id ORDER BY p.name_order"

func scanInspectable(row scanner) (p InspectableProperty, err error) {
	p.Property, err = scanProperty(joined{row, append([]any{&p.Plan}, p.Index.fields()...)})
	p.Index.PropertyID = p.ID
	return p, err
}

// InspectableProperties returns every property by name, archived and unreadable ones too, with its plan and the state of its
// coverage.
func (s *Store) InspectableProperties(ctx context.Context) ([]InspectableProperty, error) {
	properties, err := all(ctx, s.db, scanInspectable, selectInspectable)
	if err != nil {
		return nil, fmt.Errorf("list the properties to inspect: %w", err)
	}
	return properties, nil
}
