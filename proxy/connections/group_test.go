package connections

import (
	"fmt"
	"testing"
	"time"
)

// A flood of new connections looks at all members seldom: once for each maxCandidates that it evicts, and once a second if it can evict none.
func TestFloodLooksAtMembersSeldom(t *testing.T) {
	const members = 2*maxCandidates + 10
	for name, test := range map[string]struct {
		keyed, waiting int  // members
		again          bool // all begin to wait just before
		looks          int
	}{
		"strangers":           {0, members, false, 3},
		"customers":           {members, members, false, 3},
		"few strangers":       {members - 10, members, false, 3},
		"some strangers work": {0, members - 20, false, 2},
		"some customers work": {members, members - 20, false, 2},
		"one look":            {0, maxCandidates, false, 1},
		"all work":            {0, 0, false, 1},
		"all wait again":      {0, 0, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := manualSet(members, 0)
			for i := range members {
				c := s.closable(fmt.Sprint(i))
				if refused := s.admit(c); refused != "" {
					t.Fatal(refused)
				}
				if *clock++; i < test.waiting {
					c.waiting.Store(s.now())
				}
				c.keyed.Store(i < test.keyed)
			}
			*clock += 2 * evictAfter
			if test.again {
				for c := range s.all.members {
					c.waiting.Store(s.now())
				}
			}
			looks, admitted := 0, 0
			for range members {
				*clock += evictAfter / 2 / members
				remembered, again := len(s.all.candidates), s.all.lookAgain
				if s.admit(s.closable("new")) == "" {
					admitted++
					remembered--
				}
				if len(s.all.candidates) != remembered || s.all.lookAgain != again {
					looks++
				}
			}
			if looks != test.looks || s.all.lookAgain <= s.now() || admitted != test.waiting {
				t.Errorf("%d looks for %d evictions, want %d for %d", looks, admitted, test.looks, test.waiting)
			}
		})
	}
}

// While those with a key make room, the first member without one does as soon as it has waited long enough.
func TestStrangerMakesRoomBeforeCustomersAsSoonAsPossible(t *testing.T) {
	s, clock := manualSet(3, 0)
	var open []*Conn
	for i := range 3 {
		c := s.closable(fmt.Sprint(i))
		s.admit(c)
		c.waiting.Store(s.now())
		c.keyed.Store(i < 2)
		open = append(open, c)
	}
	const later = 10 * time.Millisecond
	stranger := open[2]
	stranger.waiting.Add(int64(later))
	*clock += evictAfter
	if refused := s.admit(s.closable("new")); refused != "" || stranger.Conn.(*closable).closed.Load() {
		t.Errorf("before the stranger has waited for a second: %q", refused)
	}
	*clock += later
	if refused := s.admit(s.closable("new")); refused != "" || !stranger.Conn.(*closable).closed.Load() {
		t.Errorf("when the stranger has waited for a second: %q", refused)
	}
}
