package translate

import (
	"fmt"
	"testing"
)

// oneFilter is the JSON of a filters array with one element. The arguments stand in it as they are.
func oneFilter(dimension, operator, value string) string {
	return fmt.Sprintf(`[{"dimension":"%s","operator":"%s","value":"%s"}]`, dimension, operator, value)
}

// Letters that Unicode folds into ASCII ones (long s, dotless i, Kelvin sign, dotted I) are other letters.
func TestFilterValuesFoldASCIIOnly(t *testing.T) {
	for _, f := range [][2]string{{"device", "deſktop"}, {"device", "mobıle"}, {"country", "\u212aaz"}, {"country", "İta"}} {
		if got, err := ParseFilters(oneFilter(f[0], "is", f[1])); err == nil {
			t.Errorf("%s %q was read as %+v", f[0], f[1], got)
		}
	}
}
