package bulkexport

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// importCSV imports a table by property with two rows of the shop: the given one, and a good one.
func importCSV(t *testing.T, row string) (*testArchive, error) {
	t.Helper()
	const good = "2025-01-28,sc-domain:shop.example,WEB,10,2,5,deu,MOBILE,shoes,false"
	folder := t.TempDir()
	text := strings.Join(siteColumns(), ",") + "\n" + good + "\n" + row + "\n"
	if err := os.WriteFile(filepath.Join(folder, "site.csv"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newArchive(t)
	_, err := Import(t.Context(), a, options(t, folder))
	return a, err
}

// A row of the property that no real export has is an error that names the row: nothing in it counts as zero, and nothing is archived.
func TestInvalidRowsAreErrors(t *testing.T) {
	for row, want := range map[string]string{
		"2025-02-30,sc-domain:shop.example,WEB,10,2,5,deu,MOBILE,shoes,false":           `row 2: data_date is "2025-02-30", which is not a day`,
		"2025-01-28,sc-domain:shop.example,WEB,ten,2,5,deu,MOBILE,shoes,false":          `row 2: impressions is "ten", which is not a number`,
		"2025-01-28,sc-domain:shop.example,WEB,10.5,2,5,deu,MOBILE,shoes,false":         `row 2: impressions is "10.5", which is not a number`,
		"2025-01-28,sc-domain:shop.example,WEB,10,,5,deu,MOBILE,shoes,false":            `row 2: clicks is "", which is not a number`,
		"2025-01-28,sc-domain:shop.example,WEB,10,2,NaN,deu,MOBILE,shoes,false":         `row 2: sum_top_position is "NaN", which is not a number`,
		"2025-01-28,sc-domain:shop.example,WEB,10,-2,5,deu,MOBILE,shoes,false":          "row 2: clicks of -2, impressions of 10 and positions of 5 are not",
		"2025-01-28,sc-domain:shop.example,WEB,1,2,5,deu,MOBILE,shoes,false":            "row 2: clicks of 2, impressions of 1 and positions of 5 are not",
		"2025-01-28,sc-domain:shop.example,WEB,10,2,-5,deu,MOBILE,shoes,false":          "positions of -5 are not possible",
		"2025-01-28,sc-domain:shop.example,WEB,9007199254740993,2,5,de,MOBILE,x,false":  "impressions of 9007199254740993 ",
		"2025-01-28,sc-domain:shop.example,WEB,10,2,9.1e15,deu,MOBILE,shoes,false":      "positions of 9.1e+15 are not possible",
		"2025-01-28,sc-domain:shop.example,WEB,1,1,9e9,deu,MOBILE,shoes,false":          "positions of 9e+09 are not possible",
		"2025-01-28,sc-domain:shop.example,WEB,1,1,2147483646.5,deu,MOBILE,boots,false": "positions of 2.1474836465e+09 are not possible",
		"2025-01-28,sc-domain:shop.example,WEB,10,2,5,deu,MOBILE,caf\xe9,false":         `row 2: "caf\xe9" is not UTF-8`,
		"2025-01-28,sc-domain:shop.example,WEB,10,2,5,deu,MOBILE,shoes,maybe":           `is_anonymized_query is "maybe", which is neither true nor false`,
		"not a day,https://shop.example/,WEB,ten,-2,NaN,deu,MOBILE,of another,property": "",
		"2025-01-28,sc-domain:shop.example,IMAGE,ten,-2,NaN,deu,MOBILE,other,type":      "",
	} {
		a, err := importCSV(t, row)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", row, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "site.csv") {
			t.Errorf("%s: %v, want %q", row, err, want)
		}
		if inventory, err := a.Days(t.Context(), testProperty); err != nil || len(inventory) > 0 {
			t.Errorf("%s: %v is archived (%v)", row, inventory, err)
		}
	}
}

// Keys that the archive cannot hold count only in the totals; rows without impressions, and of days whose figures still change, not at all.
func TestOddRowsCountInTotalsOnly(t *testing.T) {
	const one, both = "2 10 1.5", "3 40 1.875"   // the figures of the good row, and of both rows
	for row, want := range map[string][4]string{ // of the country, the device, the query, and the total
		"2025-01-28,sc-domain:shop.example,web,30,1,30,DEU,mobile,shoes,":                                    {both, both, both, both},
		"2025-01-28,sc-domain:shop.example,WEB,0,0,0,fra,TABLET,boots,false":                                 {one, one, one, one},
		"2025-01-28,sc-domain:shop.example,WEB,30,1,30,,,,true":                                              {one, one, one, both},
		"2025-01-28,sc-domain:shop.example,WEB,30,1,30,d1u,TV,shoes,true":                                    {one, one, one, both},
		"2026-01-02,sc-domain:shop.example,WEB,30,1,30,deu,MOBILE,shoes,false":                               {one, one, one, one},
		"2025-01-28,sc-domain:shop.example,WEB,30,1,30,de{,MOBILE,shoes,false":                               {one, both, both, both},
		"2025-01-28,sc-domain:shop.example,WEB,30,1,30,germany,DESK,,false":                                  {one, one, one, both},
		"2025-01-28,sc-domain:shop.example,WEB,30,1,30,deu,MOBILE," + strings.Repeat("x", 17<<10) + ",false": {both, both, one, both},
	} {
		a, err := importCSV(t, row)
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{"2025-01-28countrydeu" + want[0], "2025-01-28deviceMOBILE" + want[1], "2025-01-28queryshoes" + want[2],
			"2025-01-28total" + want[3]}
		if got := a.rows(t); !slices.Equal(got, lines) {
			t.Errorf("%.80s: %q, want %q", row, got, lines)
		}
	}
	a, err := importCSV(t, "2025-01-28,sc-domain:shop.example,WEB,30,1,30,ZAF,MOBILE,shoes,false")
	if got := a.rows(t); err != nil || got[1] != "2025-01-28countryzaf1 30 2" {
		t.Errorf("%q, %v", got, err)
	}
}
