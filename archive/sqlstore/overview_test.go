package sqlstore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sara/translate"
)

// seedOverview adds properties in states around the limits of an overview, for two plans.
func seedOverview(t *testing.T, f *fixture, random *rand.Rand, anchor translate.Date) {
	t.Helper()
	f.acme()
	f.account("bold", "trial")
	f.workspace("bold", "clients")
	f.connection("clients", "other")
	now := f.time
	for i := range 60 {
		f.time = now.Add(-time.Duration(random.IntN(4)) * 23 * time.Hour)
		p := f.property([]string{"google", "google", "other"}[random.IntN(3)], fmt.Sprintf("sc-domain:site%d.example", i))
		f.time = now
		if random.IntN(10) == 0 {
			value(f.SetArchived(f.ctx, p.ID, true))(t)
		}
		at := func() *time.Time {
			if random.IntN(3) == 0 {
				return nil
			}
			then := now.Add(-time.Duration(random.IntN(5*24*60)) * time.Minute).Truncate(time.Second)
			return &then
		}
		if random.IntN(5) > 0 {
			state := ArchiveState{PropertyID: p.ID, CollectedAt: at(), Failures: random.IntN(2)}
			if random.IntN(3) > 0 {
				last := anchor - translate.Date(random.IntN(5))
				state.First, state.Last = &last, &last
			}
			wantNil(t, f.SaveArchiveState(f.ctx, state))
		}
		if random.IntN(5) > 0 {
			wantNil(t, f.SaveIndexRun(f.ctx, IndexState{PropertyID: p.ID, Failures: random.IntN(2)}))
			if refreshed := at(); refreshed != nil {
				value(f.PublishInspections(f.ctx, p.ID, anchor, *refreshed))(t)
			}
		}
	}
}

func testOverviews(t *testing.T, f *fixture) {
	calendar := value(translate.NewCalendar())(t)
	empty := OverviewQuery{Now: f.time, LateDays: 2, Most: 20}
	equal(t, value(f.ArchiveOverview(f.ctx, calendar, empty))(t), Overview[ArchivableProperty]{First: []ArchivableProperty{}})
	equal(t, value(f.IndexOverview(f.ctx, empty))(t), Overview[InspectableProperty]{First: []InspectableProperty{}})

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	seedOverview(t, f, rand.New(rand.NewPCG(seed, 0)), calendar.Anchor(f.time))
	for _, plans := range [][]string{nil, {"pro"}, {"trial", "pro", "agency"}} {
		for _, most := range []int{0, 7, 100} {
			q := OverviewQuery{Plans: plans, Now: f.time, LateDays: 2, Most: most}
			equal(t, value(f.ArchiveOverview(f.ctx, calendar, q))(t), naiveArchives(value(f.ArchivableProperties(f.ctx))(t), calendar, q))
			equal(t, value(f.IndexOverview(f.ctx, q))(t), naiveIndexes(value(f.InspectableProperties(f.ctx))(t), q))
		}
	}
}

const never = 1 << 30 // days behind

func naiveArchives(all []ArchivableProperty, calendar translate.Calendar, q OverviewQuery) (o Overview[ArchivableProperty]) {
	anchor := calendar.Anchor(q.Now)
	behind := make(map[string]int)
	for _, p := range all {
		at, last := p.State.CollectedAt, p.State.Last
		if at != nil && (o.Newest == nil || at.After(*o.Newest)) {
			o.Newest = at
		}
		if p.Archived || !slices.Contains(q.Plans, p.Plan) {
			o.Left++
			continue
		}
		behind[p.ID] = never
		if last != nil {
			behind[p.ID] = max(0, int(anchor-*last))
		}
		if at != nil {
			behind[p.ID] = min(behind[p.ID], max(0, int(anchor-calendar.Anchor(*at))))
		}
		o.count(behind[p.ID], p.State.Failures, p.CreatedAt, q)
		if at != nil && calendar.Anchor(*at) >= anchor {
			o.Complete++
		}
		if reached := anchor - translate.Date(behind[p.ID]); behind[p.ID] != never && (o.Oldest == nil || reached < *o.Oldest) {
			o.Oldest = &reached
		}
	}
	o.First = worst(all, q.Most, func(p ArchivableProperty) int { return rank(behind, p.ID, p.State.Failures) },
		func(p ArchivableProperty) string { return p.ID })
	return o
}

func naiveIndexes(all []InspectableProperty, q OverviewQuery) (o Overview[InspectableProperty]) {
	behind := make(map[string]int)
	for _, p := range all {
		at := p.Index.RefreshedAt
		if at != nil && (o.Newest == nil || at.After(*o.Newest)) {
			o.Newest = at
		}
		if p.Archived || !slices.Contains(q.Plans, p.Plan) {
			o.Left++
			continue
		}
		behind[p.ID] = never
		if at != nil {
			behind[p.ID] = int(q.Now.Sub(*at) / (24 * time.Hour))
		}
		o.count(behind[p.ID], p.Index.Failures, p.CreatedAt, q)
	}
	o.First = worst(all, q.Most, func(p InspectableProperty) int { return rank(behind, p.ID, p.Index.Failures) },
		func(p InspectableProperty) string { return p.ID })
	return o
}

func (c *OverviewCounts) count(behind, failures int, created time.Time, q OverviewQuery) {
	c.Properties++
	if failures > 0 {
		c.Failing++
	}
	if behind >= q.LateDays && (behind != never || q.Now.Sub(created) >= time.Duration(q.LateDays)*24*time.Hour) {
		c.Late++
	}
}

// rank orders properties by the days that they are behind, and then by whether they fail. Those that are left out are not behind.
func rank(behind map[string]int, id string, failures int) int {
	days, kept := behind[id]
	if kept && failures > 0 {
		return 2*days + 1
	}
	return 2 * days
}

// worst returns the first of a list by rank, in the order of the list; nil for none.
func worst[P any](all []P, most int, rank func(P) int, id func(P) string) []P {
	if most == 0 {
		return nil
	}
	byRank := slices.Clone(all)
	slices.SortStableFunc(byRank, func(a, b P) int { return cmp.Compare(rank(b), rank(a)) })
	chosen := make(map[string]bool)
	for _, p := range byRank[:min(len(all), most)] {
		chosen[id(p)] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(p P) bool { return !chosen[id(p)] })
}

func testPages(t *testing.T, f *fixture) {
	f.acme()
	f.account("bold", "agency")
	accounts := value(f.Accounts(f.ctx))(t)
	equal(t, value(f.AccountsAfter(f.ctx, "", 1))(t), accounts[:1])
	equal(t, value(f.AccountsAfter(f.ctx, accounts[0].ID, 9))(t), accounts[1:])
	equal(t, value(f.AccountsAfter(f.ctx, accounts[1].ID, 9))(t), []Account{})

	f.workspace("bold", "clients")
	f.connection("clients", "other")
	b := f.property("google", "sc-domain:b.example")
	other := f.property("other", "sc-domain:b.example")
	a := f.property("google", "sc-domain:a.example")
	want := []SiteOfProperty{{a.ID, a.Site}, {b.ID, b.Site}, {other.ID, other.Site}}
	slices.SortFunc(want[1:], func(x, y SiteOfProperty) int { return cmp.Compare(x.ID, y.ID) })
	var after SiteOfProperty
	for i := range want {
		page := value(f.SitesAfter(f.ctx, after, 1))(t)
		equal(t, page, want[i:i+1])
		after = page[0]
	}
	equal(t, value(f.SitesAfter(f.ctx, after, 1))(t), []SiteOfProperty{})
}
