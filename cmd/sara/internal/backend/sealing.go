package backend

import (
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/settings"
)

// NamedConnections bounds how many connections errors name.
const NamedConnections = 20

// CheckSealing returns an error if there are stored credentials and no secret key opens any of them: the key is missing or the wrong
// one, so every call would fail. Otherwise some may still be unusable, as the Sealing shows.
func CheckSealing(ctx context.Context, store *sqlstore.Store) (sqlstore.Sealing, error) {
	sealing, err := store.Sealing(ctx, NamedConnections)
	if err != nil {
		return sealing, err
	}
	stored := 0
	for _, key := range sealing.Keys {
		stored += key.Connections
	}
	if n := sealing.Unopened.Total; n > 0 && n == stored {
		return sealing, SealingErrors(sealing)[0]
	}
	return sealing, nil
}

// SealingErrors returns errors for the connections whose credentials no secret key opens: one for each that is named, one for the
// others together, and a single one if there is no secret key.
func SealingErrors(s sqlstore.Sealing) (errs []error) {
	unopened := s.Unopened
	if !s.Checked() && unopened.Total > 0 {
		return []error{settings.Errorf("SARA_SECRET_KEY", "connection %q: no secret key: set it to the key that encrypted the credentials%s; "+
			"a new one cannot open them", unopened.First[0].Name, missingKeys(s))}
	}
	for _, c := range unopened.First {
		errs = append(errs, settings.Errorf("SARA_SECRET_KEY", "connection %q: %v", c.Name, c.Err))
	}
	if more := unopened.Total - len(unopened.First); more > 0 {
		errs = append(errs, settings.Errorf("SARA_SECRET_KEY", "and %s%s", english.Plural(more, "more connection", ""), missingKeys(s)))
	}
	return errs
}

// missingKeys names the secret keys that are needed and not set, in brackets; empty if the credentials do not name them.
func missingKeys(s sqlstore.Sealing) string {
	var ids []string
	for _, key := range s.Keys {
		if key.Role == sqlstore.MissingKey && key.IsKnown() {
			ids = append(ids, key.ID.String())
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return " (" + strings.Join(ids, ", ") + ")"
}

// PreviousKeysNote says which previous keys are still needed, and which are not; empty if none is set.
func PreviousKeysNote(s sqlstore.Sealing) string {
	var notes []string
	for _, key := range s.Keys {
		switch {
		case key.Role != sqlstore.PreviousKey:
		case key.Connections == 0:
			notes = append(notes,
				fmt.Sprintf("no connection needs the previous secret key %s now: remove it from SARA_SECRET_KEY_PREVIOUS of all servers", key.ID))
		default:
			notes = append(notes, fmt.Sprintf("the previous secret key %s is still needed, for %d of the connections: run sara connection reseal",
				key.ID, key.Connections))
		}
	}
	return strings.Join(notes, "; ")
}
