package translate

import (
	"strings"
	"testing"
)

// day reads a date that the test itself wrote.
func day(s string) Date {
	d, err := ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

// When the period itself is too old, the message says where the period starts, not the one before it.
func TestTooOldNamesTheStartThatIsTooOld(t *testing.T) {
	w := NewWindow(day("2026-06-13"), 36) // the earliest day is 2023-06-14
	f := func(query, want string) {
		t.Helper()
		_, err := Parse(Summary(), []byte(query), w)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q...", query, err, want)
		}
	}
	f("start_date=2020-01-11&end_date=2020-01-20&compare=previous_period", "the range starts on 2020-01-11, ")
	f("start_date=2023-06-14&end_date=2023-06-23&compare=previous_period", "the range with the period before it starts on 2023-06-04, ")
}
