package main

import (
	"testing"
)

func TestGOMAXPROCS(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		variable      string
		cores, chosen int
		want          int
	}{
		{"one core", "", 1, 1, 4},
		{"two cores", "", 2, 2, 4},
		{"at the lower bound", "", 4, 4, 0},
		{"many cores", "", 64, 64, 0},
		{"a quota of two of many cores", "", 64, 2, 0},
		{"a quota of one core of two", "", 2, 1, 0},
		{"set by the variable", "2", 2, 2, 0},
	} {
		if got := gomaxprocs(test.variable, test.cores, test.chosen); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
