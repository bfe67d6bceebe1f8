package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sara/archive/sqlstore"
	"sara/policy"
	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// askTimeout is how long one question of a daily job may take, retries included. Nobody waits for it.
const askTimeout = 90 * time.Second

// searchConsole is what the daily jobs ask, and where they write down how far they have come. What a call shows of a
// connection's health is noted for everybody.
type searchConsole struct {
	client *upstream.Client
	store  *sqlstore.Store
	plans  policy.Plans

	mu    sync.Mutex
	known map[string]sqlstore.Property // by id, with the health that was noted last
}

var (
	_ collector.Source = (*searchConsole)(nil)
	_ collector.Ledger = (*searchConsole)(nil)
)

// properties returns all properties as the collector takes them.
func (s *searchConsole) properties(ctx context.Context) ([]collector.Property, error) {
	archivable, err := s.store.ArchivableProperties(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = make(map[string]sqlstore.Property, len(archivable))
	properties := make([]collector.Property, len(archivable))
	for i, a := range archivable {
		s.known[a.ID] = a.Property
		properties[i] = collector.Property{
			ID: a.ID, Site: a.Site, Connection: a.Connection.ID, RetentionMonths: s.plans[a.Plan].RetentionMonths,
			Archived: a.Archived, State: collector.State(a.State),
		}
	}
	return properties, nil
}

// only returns the one of the properties that a reference names; all without a reference.
func only[P any](ctx context.Context, store *sqlstore.Store, reference string, properties []P, id func(P) string) ([]P, error) {
	if reference == "" {
		return properties, nil
	}
	chosen, err := store.Property(ctx, reference)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(properties, func(p P) bool { return id(p) != chosen.ID }), nil
}

// SaveState implements collector.Ledger.
func (s *searchConsole) SaveState(ctx context.Context, state collector.State) error {
	return s.store.SaveArchiveState(ctx, sqlstore.ArchiveState(state))
}

// Ask implements collector.Source.
func (s *searchConsole) Ask(ctx context.Context, p collector.Property, q translate.Query) (*translate.Rows, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := s.client.SearchAnalytics(ctx, s.account(p.ID), p.Site, q.AppendBody(nil))
	if err != nil {
		err = s.refused(ctx, p.ID, err)
		if schedule.ClassOf(err) == schedule.AccessLost {
			s.note(ctx, p.ID, "", "The connected account has no access to the property in Search Console.")
		}
		return nil, err
	}
	s.note(ctx, p.ID, "", "")
	return translate.ReadRows(body, q.Dimension)
}

// account is what a property is read through.
func (s *searchConsole) account(propertyID string) upstream.Account {
	connection := s.property(propertyID).Connection
	return upstream.Account{ID: connection.ID, Revision: connection.Revision,
		Credentials: func(ctx context.Context) ([]byte, error) {
			credentials, _, err := s.store.Credentials(ctx, connection.ID)
			return credentials, err
		}}
}

func (s *searchConsole) property(id string) sqlstore.Property {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[id]
}

// refused notes what a failed call shows of the connection, and says what it means for the job.
func (s *searchConsole) refused(ctx context.Context, id string, err error) error {
	var trouble *upstream.Error
	if !errors.As(err, &trouble) {
		return err // the credentials could not be read
	}
	refusal := &schedule.Refusal{Class: schedule.Unavailable, Err: err}
	switch trouble.Kind {
	case upstream.Quota:
		refusal.Class, refusal.Rest = schedule.Quota, trouble.RetryAfter
	case upstream.Forbidden:
		refusal.Class = schedule.AccessLost
	case upstream.Revoked:
		refusal.Class = schedule.ConnectionLost
		s.note(ctx, id, "The connection to Search Console was revoked or has expired: connect the account again.", "")
	case upstream.Misconfigured:
		refusal.Class = schedule.ConnectionLost
		s.note(ctx, id, "The connection to Search Console does not work: "+trouble.Message, "")
	case upstream.Rejected:
		refusal.Class = schedule.Rejected
	}
	return refusal
}

// note records what is wrong with a property's connection, or else with its access; nothing for empty texts. Only a change
// is written, and one that cannot be is left to the next call: collecting does not depend on it.
func (s *searchConsole) note(ctx context.Context, id, connectionNote, accessNote string) {
	p := s.property(id)
	changed := false
	if healthy := connectionNote == ""; healthy != p.Connection.Healthy {
		_, err := s.store.SetConnectionHealth(ctx, p.Connection.ID, p.Connection.Revision, healthy, connectionNote)
		p.Connection.Healthy = healthy
		changed = err == nil
	}
	if connectionNote == "" && (accessNote == "") != (p.AccessNote == "") {
		_, err := s.store.SetPropertyAccess(ctx, id, accessNote)
		p.AccessNote = accessNote
		changed = changed || err == nil
	}
	if changed {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known[id] = p
	}
}
