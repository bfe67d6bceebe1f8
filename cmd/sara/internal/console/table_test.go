package console

import (
	"strings"
	"testing"
)

func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	const id = "0195f3c2-7d1e-7b52-9d3f-3f8a2c6d9e10"
	whole := table{header: []string{"SITE", "PERMISSION", "ID", "NOTE"}, optional: []string{"PERMISSION", "ID"},
		rows: [][]string{{"https://www.a-rather-long-host.example/shop/", "siteFullUser", id, "the upstream refuses the token"},
			{"sc-domain:b.example", "siteOwner", id, ""}}}
	for width, want := range map[int]string{
		0: "SITE                                          PERMISSION    ID                                    NOTE\n" +
			"https://www.a-rather-long-host.example/shop/  siteFullUser  " + id + "  the upstream refuses the token\n" +
			"sc-domain:b.example                           siteOwner     " + id + "\n",
		100: "SITE                                          PERMISSION    ID\n" +
			"https://www.a-rather-long-host.example/shop/  siteFullUser  " + id + "\n" +
			"    the upstream refuses the token\n" +
			"sc-domain:b.example                           siteOwner     " + id + "\n",
		80: "SITE                          PERMISSION    ID\n" +
			"https://www.a-rather-long-h…  siteFullUser  " + id + "\n" +
			"    the upstream refuses the token\n" +
			"sc-domain:b.example           siteOwner     " + id + "\n",
		60: "SITE                    ID\n" +
			"https://www.a-rather-…  " + id + "\n" +
			"    the upstream refuses the token\n" +
			"sc-domain:b.example     " + id + "\n",
		30: "SITE\n" + "https://www.a-rather-long-hos…\n" + "    the upstream refuses the\n    token\n" + "sc-domain:b.example\n",
	} {
		var out strings.Builder
		printed := whole
		if err := printed.print(&out, width); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("with %d columns:\n%s\nwant\n%s", width, out.String(), want)
		}
	}
	if whole.rows[0][1] != "siteFullUser" {
		t.Error("the rows of the caller are changed")
	}
}

// A cell may hold any text, such as the note of an annotation.
func TestCellsStayOnTheirLine(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	row := []string{"a\nb", "c\r\n\x1b[31md\u2028\u0085"}
	if err := PrintTable(&out, []string{"TITLE", "COLOR", "NOTE"}, [][]string{row}); err != nil {
		t.Fatal(err)
	}
	if want := "TITLE  COLOR        NOTE\na b    c   [31md\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if row[0] != "a\nb" {
		t.Error("the rows of the caller are changed")
	}
}
