package sqlstore

import (
	"testing"

	"sara/policy"
)

func testUsage(t *testing.T, f *fixture) {
	one, two := f.account("one", "pro"), f.account("two", "pro")
	first := policy.UsageCount{AccountID: one.ID, Hour: 500_001, Day: 20_833, InHour: 3, InDay: 4, Calls: 5}
	second := policy.UsageCount{AccountID: two.ID, Hour: 500_001, Day: 20_833, InHour: 1, InDay: 1}
	generation := f.Generation()
	wantNil(t, f.SaveUsage(f.ctx, []policy.UsageCount{first, second}))
	first.InHour, first.InDay = 7, 8
	wantNil(t, f.SaveUsage(f.ctx, []policy.UsageCount{first}))
	equal(t, value(f.Usage(f.ctx, 20_833))(t), []policy.UsageCount{first, second})
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []policy.UsageCount{})
	equal(t, f.Generation(), generation)

	next := policy.UsageCount{AccountID: one.ID, Hour: 500_025, Day: 20_834, InHour: 1, InDay: 1}
	unknown := policy.UsageCount{AccountID: "unknown", Hour: 1, Day: 20_834}
	if err := f.SaveUsage(f.ctx, []policy.UsageCount{next, unknown}); err == nil {
		t.Error("usage of an account that does not exist is kept")
	}
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []policy.UsageCount{})
}
