package main

import "testing"

func TestProcessors(t *testing.T) {
	for _, test := range []struct {
		name          string
		wanted        string
		cores, chosen int
		want          int
	}{
		{"one core", "", 1, 1, 4},
		{"two cores", "", 2, 2, 4},
		{"as many as the fewest", "", 4, 4, 0},
		{"many cores", "", 64, 64, 0},
		{"a quota of two cores of many", "", 64, 2, 0},
		{"a quota of one core of two", "", 2, 1, 0},
		{"set by who runs it", "2", 2, 2, 0},
	} {
		if got := processors(test.wanted, test.cores, test.chosen); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
