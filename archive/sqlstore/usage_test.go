package sqlstore

import "testing"

func testUsage(t *testing.T, f *fixture) {
	one, two := f.account("one", "pro"), f.account("two", "pro")
	first := UsageCount{AccountID: one.ID, Hour: 500_001, Day: 20_833, InHour: 3, InDay: 4, Calls: 5}
	second := UsageCount{AccountID: two.ID, Hour: 500_001, Day: 20_833, InHour: 1, InDay: 1}
	generation := f.Generation()
	wantNil(t, f.SaveUsage(f.ctx, []UsageCount{first, second}))
	first.InHour, first.InDay = 7, 8
	wantNil(t, f.SaveUsage(f.ctx, []UsageCount{first}))
	equal(t, value(f.Usage(f.ctx, 20_833))(t), []UsageCount{first, second})
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []UsageCount{})
	equal(t, f.Generation(), generation)

	next := UsageCount{AccountID: one.ID, Hour: 500_025, Day: 20_834, InHour: 1, InDay: 1}
	unknown := UsageCount{AccountID: "nobody", Hour: 1, Day: 20_834}
	if err := f.SaveUsage(f.ctx, []UsageCount{next, unknown}); err == nil {
		t.Error("usage of an account that does not exist is kept")
	}
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []UsageCount{})
}
