package policy

import (
	"fmt"
	"slices"
	"time"
)

// A knownAnswer is an answer of the directory that a gate has cached: a key by its hash, or the properties of a query.
type knownAnswer struct {
	LoadedAt   time.Time  `json:"at"` // when the directory was asked
	Hash       []byte     `json:"hash,omitempty"`
	Key        *Key       `json:"key,omitempty"`
	Query      *[3]string `json:"query,omitempty"` // person, workspace and reference
	Properties []Property `json:"properties,omitempty"`
}

// subject identifies what was asked.
func (a *knownAnswer) subject() string {
	if a.Key != nil {
		return string(a.Hash)
	}
	return fmt.Sprintf("%q", *a.Query)
}

// check returns an error if the answer is not one that a gate can have cached.
func (a *knownAnswer) check() error {
	isKey := a.Key != nil && len(a.Hash) == len(Hash{}) && a.Query == nil && a.Properties == nil
	isQuery := a.Key == nil && a.Hash == nil && a.Query != nil && len(a.Query[2]) <= maxReferenceLength && len(a.Properties) > 0
	if !isKey && !isQuery {
		return fmt.Errorf("the answer of %v is neither a key nor properties", a.LoadedAt)
	}
	if isKey && a.Key.Scopes&^AllScopes != 0 {
		return fmt.Errorf("the key of %v has unknown scopes", a.LoadedAt)
	}
	return nil
}

// known returns the cached answers of a version that are not too old to be used, the latest first. They are shared: read only.
func (g *Gate) known(v version) (answers []knownAnswer) {
	now := g.config.Now()
	for hash, a := range g.keys.positive.All() {
		if a.isUsable(now, v) {
			answers = append(answers, knownAnswer{LoadedAt: a.loadedAt, Hash: hash[:], Key: a.value})
		}
	}
	for q, a := range g.properties.positive.All() {
		if a.isUsable(now, v) {
			answers = append(answers, knownAnswer{LoadedAt: a.loadedAt, Query: &[3]string{q.personID, q.workspaceID, q.reference}, Properties: a.value})
		}
	}
	slices.SortStableFunc(answers, func(a, b knownAnswer) int { return b.LoadedAt.Compare(a.LoadedAt) })
	return answers
}

// restore caches the answers of a snapshot as they were read, so that they expire when they would have where they come from.
// knownChanges is what the gate knew before the snapshot was read: if it knows about more changes by now, nothing is used.
func (g *Gate) restore(s *snapshot, knownChanges uint64) {
	v := version{knownChanges, s.Edition}
	for i := range s.answers {
		a := &s.answers[i]
		if a.Key != nil {
			restored := answer[*Key]{value: a.Key, loadedAt: a.LoadedAt, triedAt: a.LoadedAt, version: v}
			g.keys.put(Hash(a.Hash), restored)
			if newest := g.keys.newest.Load(); newest == nil || newest.version != v || newest.loadedAt.Before(a.LoadedAt) {
				g.keys.newest.Store(&restored)
			}
			continue
		}
		g.properties.put(propertyQuery{a.Query[0], a.Query[1], a.Query[2]},
			answer[[]Property]{value: a.Properties, loadedAt: a.LoadedAt, triedAt: a.LoadedAt, version: v})
	}
	// Last: it makes the others usable.
	g.editions.put(struct{}{}, answer[uint64]{value: s.Edition, loadedAt: s.ReadAt, triedAt: s.ReadAt, version: version{knownChanges: knownChanges}})
}
