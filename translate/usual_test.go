package translate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The parser of usual rows reads what the general one does: the same rows with their members in another order are not usual.
func TestUsualRowsEqualOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	spaces := func() string { return strings.Repeat(" ", random.IntN(3)) + strings.Repeat("\n\t", random.IntN(2)) }
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	for range 3000 {
		key := pick(`"running shoes for winter"`, `""`, `"caf\u00e9"`, `"日本語のキーワード"`, "\"broken \xff bytes\"", "\"tab\there\"",
			`"a \" b"`, `"12345678"`, `"\ud800"`)
		clicks := pick("0", "7", "12", "012", "123456789012345", "1234567890123456", "12345678901234567890", "12.0", "1.2E1", "-1", "null", "")
		impressions := pick("0", "5", "10", "1e3", "99999")
		ctr := pick("0", "0.05128205128205128", "1", "1e-3", "-0.5", "0.", "2e400")
		position := pick("1", "3.1282051282051282", "100.5", "0")
		members := []string{`"keys":` + spaces() + "[" + spaces() + key + spaces() + "]", `"clicks":` + spaces() + clicks,
			`"impressions"` + spaces() + ":" + impressions, spaces() + `"ctr":` + ctr, spaces() + `"position":` + spaces() + position}
		without := random.IntN(3) == 0 // ctr
		body := func(order ...int) []byte {
			var row []string
			for _, i := range order {
				if i != 3 || !without {
					row = append(row, members[i])
				}
			}
			text := "{" + spaces() + strings.Join(row, spaces()+",") + "}"
			return []byte(`{"rows":[` + text + "," + text + `],"responseAggregationType":"byProperty"}`)
		}
		usual, err := ReadRows(bytes.NewReader(body(0, 1, 2, 3, 4)), ByQuery)
		other, otherErr := ReadRows(bytes.NewReader(body(1, 0, 2, 3, 4)), ByQuery)
		if (err == nil) != (otherErr == nil) || err == nil && !equalRows(usual, other) {
			t.Errorf("%s: %v and %v", body(0, 1, 2, 3, 4), err, otherErr)
		}
	}
}

func TestUsualRowsAreRecognized(t *testing.T) {
	row := `{"keys": ["a b"], "clicks": 12, "impressions": 345, "ctr": 0.034782608695652174, "position": 3.5}`
	short := strings.Replace(row, `"ctr": 0.034782608695652174, `, "", 1)
	compact := strings.NewReplacer(": ", ":", ", ", ",")
	for _, text := range []string{row, compact.Replace(row), strings.ReplaceAll(row, ": ", ":\n      "), short, compact.Replace(short),
		strings.ReplaceAll(short, ", ", " ,\n ")} {
		s := scanner{text: text + ","}
		key, m, ok := s.usualRow()
		if !ok || key.rest.raw != "a b" || m != (Metrics{12, 345, 0.034782608695652174, 3.5}) || s.at != len(text) {
			t.Errorf("%s: %q, %+v, %t, at %d", text, key.rest.raw, m, ok, s.at)
		}
		for cut := range len(text) + 1 {
			s := scanner{text: text[:cut]}
			if _, _, ok := s.usualRow(); ok || s.at != 0 {
				t.Errorf("%q is a row", text[:cut])
			}
		}
	}
}

func TestPrintableText(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				text := []byte(strings.Repeat("x", length))
				text[at] = byte(c)
				if got := isPrintable(string(text)); got != (c >= ' ') {
					t.Fatalf("%s: %t", fmt.Sprintf("%q", text), got)
				}
			}
		}
	}
}
