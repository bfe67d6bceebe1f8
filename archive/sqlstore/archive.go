package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"sara/translate"
)

// An ArchiveState summarizes a property's archive for operators and the API. The archive's objects are the source of truth.
type ArchiveState struct {
	PropertyID  string
	First, Last *translate.Date // first and last archived day; nil while nothing is archived
	// Gaps are the months between them that were never archived, each as its first day, in order; nil if that is not recorded.
	Gaps          []translate.Date
	CollectedAt   *time.Time // start of the last run that completed; nil for never
	CooldownUntil *time.Time // no calls to its site until then; nil for no cooldown
	Failures      int        // failed runs since the last success
	Note          string     // why the last run failed, for operators; empty if it did not
}

func scanArchiveState(row scanner, a *ArchiveState) error {
	return row.Scan(&a.PropertyID, &a.First, &a.Last, gapsOf{&a.Gaps}, optionalInstant{&a.CollectedAt}, optionalInstant{&a.CooldownUntil},
		&a.Failures, &a.Note)
}

const selectArchiveState = "SELECT property_id, first_day, last_day, gaps, collected_at, rests_until, failures, note" +
	" FROM archive_states WHERE property_id = $1"

// ArchiveState returns the state of a property's archive; only PropertyID is set if it was never collected.
func (s *Store) ArchiveState(ctx context.Context, propertyID string) (_ ArchiveState, err error) {
	defer wrap(&err, "read the state of the archive of property %s", propertyID)
	a, err := one(ctx, s.overview, scanArchiveState, selectArchiveState, propertyID)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	a.PropertyID = propertyID
	return a, err
}

// SaveArchiveState replaces the state of a property's archive. It cleans the note. Generation stays the same; Edition advances if
// the range of archived days, which the API serves, has changed. The error of a property that was removed meanwhile is a NotFoundError.
func (s *Store) SaveArchiveState(ctx context.Context, a ArchiveState) (err error) {
	defer wrap(&err, "save the state of the archive of property %s", a.PropertyID)
	return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		changed, err := writeArchiveState(ctx, tx, a)
		if err != nil || !changed {
			return err
		}
		return nextEdition(ctx, tx)
	})
}

// RecordArchiveChange is SaveArchiveState after a person has changed a property's archive: the same transaction records the action, such as
// archive.import, in the audit log, with details for people.
func (s *Store) RecordArchiveChange(ctx context.Context, a ArchiveState, action string, about map[string]any) (err error) {
	defer wrap(&err, "record a change of the archive of property %s", a.PropertyID)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findProperty(ctx, tx, a.PropertyID)
		if err != nil {
			return change{}, err
		}
		c := p.change(action)
		maps.Copy(c.details, about)
		_, err = writeArchiveState(ctx, tx, a)
		return c, err
	})
}

const (
	// PostgreSQL locks a row that exists, although the condition keeps it as it is. To update it twice would check the reference to the
	// property again, which a removal may have locked before it waits for this row.
	lockArchiveState = "INSERT INTO archive_states (property_id, failures, note) VALUES ($1, 0, '')" +
		" ON CONFLICT (property_id) DO UPDATE SET note = '' WHERE FALSE"
	updateArchiveState = "UPDATE archive_states SET first_day = $1, last_day = $2, gaps = $3, collected_at = $4, rests_until = $5," +
		" failures = $6, note = $7 WHERE property_id = $8"
)

// writeArchiveState reports whether the range of archived days has changed, also from what another process has saved meanwhile.
func writeArchiveState(ctx context.Context, tx *sql.Tx, a ArchiveState) (changed bool, err error) {
	if _, err := tx.ExecContext(ctx, lockArchiveState, a.PropertyID); err != nil {
		if isForeignKeyViolation(err) {
			err = &NotFoundError{"property", a.PropertyID}
		}
		return false, err
	}
	before, err := one(ctx, tx, scanArchiveState, selectArchiveState, a.PropertyID)
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, updateArchiveState, a.First, a.Last, gapsText(a.Gaps), optionalMillis(a.CollectedAt),
		optionalMillis(a.CooldownUntil), a.Failures, cleanNote(a.Note), a.PropertyID)
	return !isSameDay(before.First, a.First) || !isSameDay(before.Last, a.Last), err
}

// NewestArchivedDay returns the last archived day of all properties; nil if nothing is archived.
func (s *Store) NewestArchivedDay(ctx context.Context) (_ *translate.Date, err error) {
	defer wrap(&err, "read the newest archived day")
	return one(ctx, s.overview, scalar[*translate.Date], "SELECT max(last_day) FROM archive_states")
}

func isSameDay(a, b *translate.Date) bool { return a == b || a != nil && b != nil && *a == *b }

// An ArchivableProperty is a property with its account's plan and the state of its archive.
type ArchivableProperty struct {
	Property
	Plan  string       // of the account that owns its workspace
	State ArchiveState // only PropertyID is set if it was never collected
}

const selectArchivable = "SELECT " + propertyColumns + ", a.plan, s.gaps, s.collected_at, s.rests_until," +
	" coalesce(s.failures, 0), coalesce(s.note, '') FROM properties p JOIN connections c ON c.id = p.connection_id" +
	" JOIN workspaces w ON w.id = p.workspace_id JOIN accounts a ON a.id = w.account_id" +
	" LEFT JOIN archive_states s ON s.property_id = p.id "

func scanArchivable(row scanner, p *ArchivableProperty) error {
	err := scanProperty(joined{row, []any{&p.Plan, gapsOf{&p.State.Gaps}, optionalInstant{&p.State.CollectedAt},
		optionalInstant{&p.State.CooldownUntil}, &p.State.Failures, &p.State.Note}}, &p.Property)
	p.State.PropertyID = p.ID
	if days := p.History; days != nil {
		first, last := translate.Date(days.First), translate.Date(days.Last)
		p.State.First, p.State.Last = &first, &last
	}
	return err
}

// ArchivableProperties returns all properties ordered by name, including archived and unreadable ones, with plan and state.
func (s *Store) ArchivableProperties(ctx context.Context) (_ []ArchivableProperty, err error) {
	defer wrap(&err, "list the properties to archive")
	return all(ctx, s.overview, scanArchivable, selectArchivable+byName)
}

// ArchivableProperty returns one of ArchivableProperties; false if no property has the ID.
func (s *Store) ArchivableProperty(ctx context.Context, id string) (ArchivableProperty, bool, error) {
	p, err := one(ctx, s.overview, scanArchivable, selectArchivable+"WHERE p.id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return ArchivableProperty{}, false, nil
	}
	if err != nil {
		return ArchivableProperty{}, false, fmt.Errorf("read property %s to archive: %w", id, err)
	}
	return p, true, nil
}
