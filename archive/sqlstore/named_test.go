package sqlstore

import (
	"testing"
)

func TestNamedParametersAreNumberedByTheirFirstUse(t *testing.T) {
	t.Parallel()
	values := named{"day": 7, "plans": []string{"pro", "own"}, "last_id": "x", "unused": nil, "none": nil}
	for _, test := range []struct {
		query, want string
		args        []any
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"a = @day OR b = @last_id AND c < @day", "a = $1 OR b = $2 AND c < $1", []any{7, "x"}},
		{"p IN (@plans) AND a = @day OR p NOT IN (@plans)", "p IN ($1, $2) AND a = $3 OR p NOT IN ($1, $2)", []any{"pro", "own", 7}},
		{"a IS @none", "a IS $1", []any{nil}},
	} {
		query, args := values.bind(test.query)
		equal(t, query, test.want)
		equal(t, args, test.args)
	}
}
