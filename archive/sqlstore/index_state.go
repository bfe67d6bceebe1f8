package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// An IndexState is the progress of discovering and inspecting the URLs of a property.
type IndexState struct {
	PropertyID    string
	DiscoveredAt  *time.Time // when its URLs were last discovered; nil for never
	Source        string     // see Discovery
	URLs          int        // tracked
	Capped        bool       // more URLs exist than the plan allows
	InspectedAt   *time.Time // start of the last run that inspected all due URLs; nil for never
	RefreshedAt   *time.Time // when inspections were last published; nil for never
	CooldownUntil *time.Time // no calls to its site until then; nil for no cooldown
	Failures      int        // failed runs since the last success
	Note          string     // why the last run failed, for operators; empty if it did not
}

const (
	indexStateColumns = "s.discovered_at, coalesce(s.source, ''), coalesce(s.urls, 0), coalesce(s.capped, FALSE)," +
		" s.inspected_at, s.refreshed_at, s.rests_until, coalesce(s.failures, 0), coalesce(s.note, '')"
	selectIndexState = "SELECT " + indexStateColumns + " FROM index_states s WHERE s.property_id = $1"

	// The number of a property in the tables of URLs.
	indexNumber = "(SELECT number FROM index_states WHERE property_id = @property)"
)

// fields are the scan destinations of indexStateColumns.
func (i *IndexState) fields() []any {
	return []any{optionalInstant{&i.DiscoveredAt}, &i.Source, &i.URLs, &i.Capped, optionalInstant{&i.InspectedAt},
		optionalInstant{&i.RefreshedAt}, optionalInstant{&i.CooldownUntil}, &i.Failures, &i.Note}
}

// readIndexState returns the index state of a property; only PropertyID is set if it was never inspected.
func readIndexState(ctx context.Context, q querier, propertyID string) (IndexState, error) {
	state, err := one(ctx, q, func(row scanner, i *IndexState) error { return row.Scan(i.fields()...) }, selectIndexState, propertyID)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	state.PropertyID = propertyID
	return state, err
}

// SaveIndexRun saves the result of a run for a property: InspectedAt, CooldownUntil, Failures and the cleaned Note. SaveDiscovery
// and PublishInspections save the other fields. Generation stays the same. The error of a property that was removed meanwhile is a
// NotFoundError.
func (s *Store) SaveIndexRun(ctx context.Context, i IndexState) (err error) {
	defer wrap(&err, "save the state of the coverage of property %s", i.PropertyID)
	if err := s.openIndex(ctx, i.PropertyID); err != nil {
		return err
	}
	return s.execute(ctx, "UPDATE index_states SET inspected_at = $1, rests_until = $2, failures = $3, note = $4"+
		" WHERE property_id = $5", optionalMillis(i.InspectedAt), optionalMillis(i.CooldownUntil), i.Failures, cleanNote(i.Note), i.PropertyID)
}

// openIndex assigns a number to a property that has none. The error of a property that was removed is a NotFoundError.
func (s *Store) openIndex(ctx context.Context, propertyID string) error {
	_, err := s.number(ctx, "SELECT number FROM index_states WHERE property_id = $1", "INSERT INTO index_states"+
		" (property_id, number) VALUES ($1, (SELECT coalesce(max(number), 0) + 1 FROM index_states)) ON CONFLICT DO NOTHING", propertyID)
	if isForeignKeyViolation(err) {
		return &NotFoundError{"property", propertyID}
	}
	return err
}

// number returns the number that find selects. If there is none, add inserts the next one. It retries if another process has
// inserted the same number.
func (s *Store) number(ctx context.Context, find, add, key string, rest ...any) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	for {
		n, err := one(ctx, s.changes, scalar[int32], find, key)
		if !errors.Is(err, sql.ErrNoRows) {
			return n, err
		}
		if _, err := s.changes.ExecContext(ctx, add, append([]any{key}, rest...)...); err != nil {
			return 0, err
		}
	}
}

// An InspectableProperty is a property with its account's plan and its index state.
type InspectableProperty struct {
	Property
	Plan  string     // of the account that owns its workspace
	Index IndexState // only PropertyID is set if it was never inspected
}

const selectInspectable = "SELECT " + propertyColumns + ", a.plan, " + indexStateColumns +
	" FROM properties p JOIN connections c ON c.id = p.connection_id" +
	" JOIN workspaces w ON w.id = p.workspace_id JOIN accounts a ON a.id = w.account_id" +
	" LEFT JOIN index_states s ON s.property_id = p.id "

func scanInspectable(row scanner, p *InspectableProperty) error {
	err := scanProperty(joined{row, append([]any{&p.Plan}, p.Index.fields()...)}, &p.Property)
	p.Index.PropertyID = p.ID
	return err
}

// InspectableProperties returns all properties ordered by name, including archived and unreadable ones, with plan and state.
func (s *Store) InspectableProperties(ctx context.Context) (_ []InspectableProperty, err error) {
	defer wrap(&err, "list the properties to inspect")
	return all(ctx, s.overview, scanInspectable, selectInspectable+byName)
}

// InspectableProperty returns one of InspectableProperties; false if no property has the ID.
func (s *Store) InspectableProperty(ctx context.Context, id string) (InspectableProperty, bool, error) {
	p, err := one(ctx, s.overview, scanInspectable, selectInspectable+"WHERE p.id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return InspectableProperty{}, false, nil
	}
	if err != nil {
		return InspectableProperty{}, false, fmt.Errorf("read property %s to inspect: %w", id, err)
	}
	return p, true, nil
}
