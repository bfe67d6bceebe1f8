package service

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// connectionsStub is a store and a holder of tokens.
type connectionsStub struct {
	edition  uint64
	ids      []string
	err      error
	retained [][]string
}

func (s *connectionsStub) Edition(context.Context) (uint64, error)         { return s.edition, s.err }
func (s *connectionsStub) ConnectionIDs(context.Context) ([]string, error) { return s.ids, s.err }
func (s *connectionsStub) Retain(ids []string)                             { s.retained = append(s.retained, ids) }

func TestTokensAreComparedOncePerEdition(t *testing.T) {
	t.Parallel()
	s := &connectionsStub{edition: 3, ids: []string{"a", "b"}}
	last := retainTokens(t.Context(), s, s, 0)
	last = retainTokens(t.Context(), s, s, last)
	s.edition, s.ids = 4, []string{"a"}
	s.err = errors.New("the database is away")
	last = retainTokens(t.Context(), s, s, last)
	s.err = nil
	last = retainTokens(t.Context(), s, s, last)
	if last != 4 || !slices.EqualFunc(s.retained, [][]string{{"a", "b"}, {"a"}}, slices.Equal) {
		t.Errorf("at edition %d, %v were retained", last, s.retained)
	}
}
