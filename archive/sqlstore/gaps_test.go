package sqlstore

import (
	"testing"

	"sara/translate"
)

// An empty month is a gap unless it was archived before. If gaps were not recorded, only the first and the last month are certain.
func TestGapsAreMonthsThatWereNeverArchived(t *testing.T) {
	day := func(text string) *translate.Date {
		d, err := translate.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return &d
	}
	months := func(names ...string) []translate.Date {
		list := []translate.Date{}
		for _, name := range names {
			list = append(list, *day(name + "-01"))
		}
		return list
	}
	for _, test := range []struct {
		name   string
		before ArchiveState
		empty  []translate.Date // from 2024-01-20 to 2024-09-10
		want   []translate.Date
	}{
		{"the first time", ArchiveState{}, months("2024-03", "2024-04"), months("2024-03", "2024-04")},
		{"no month is empty", ArchiveState{}, nil, months()},
		{"a gap stays, and an archived month does not become one", ArchiveState{First: day("2024-01-20"), Last: day("2024-09-10"), Gaps: months("2024-03")},
			months("2024-03", "2024-04"), months("2024-03")},
		{"a gap was filled", ArchiveState{First: day("2024-01-20"), Last: day("2024-09-10"), Gaps: months("2024-03", "2024-04")},
			months("2024-04"), months("2024-04")},
		{"outside of what was archived", ArchiveState{First: day("2024-04-30"), Last: day("2024-06-01"), Gaps: months()},
			months("2024-03", "2024-04", "2024-05", "2024-06", "2024-07"), months("2024-03", "2024-07")},
		{"not recorded", ArchiveState{First: day("2024-04-30"), Last: day("2024-06-01")}, months("2024-03", "2024-04", "2024-05", "2024-06"),
			months("2024-03", "2024-05")},
	} {
		state := test.before
		state.Cover(day("2024-01-20"), day("2024-09-10"), test.empty)
		if gapsText(state.Gaps) != gapsText(test.want) {
			t.Errorf("%s: %v, want %v", test.name, state.Gaps, test.want)
		}
	}
}
