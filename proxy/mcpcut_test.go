package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/archive/sqlstore"
	"sara/translate"
)

// wantNewest checks a list of days that was cut: it has the newest of all rows, which meta.cut and the text say.
func (w *world) wantNewest(t *testing.T, content map[string]any, text, list string, all []any) (kept []any) {
	t.Helper()
	var data any = content
	for name := range strings.SplitSeq(list, ".") {
		data = data.(map[string]any)[name]
	}
	kept, _ = data.([]any)
	if len(kept) == 0 || len(kept) >= len(all) || !reflect.DeepEqual(kept, all[len(all)-len(kept):]) {
		t.Fatalf("%s has %d of %d rows, not the newest: %.200v", list, len(kept), len(all), kept)
	}
	cut, _ := content["meta"].(map[string]any)["cut"].(map[string]any)
	if want := map[string]any{"shown": float64(len(kept)), "of": float64(len(all))}; !reflect.DeepEqual(cut[list], want) {
		t.Errorf("meta.cut is %v, want %v of %s", cut, want, list)
	}
	how, _ := cut["how"].(string)
	name := list[strings.LastIndexByte(list, '.')+1:]
	for _, want := range []string{how, fmt.Sprintf("\n%s (the newest %d of %d)\n", name, len(kept), len(all))} {
		if how == "" || !strings.Contains(text, want) {
			t.Errorf("the text lacks %q: %.300s\n%s", want, text, text[max(0, len(text)-500):])
		}
	}
	if want := fmt.Sprintf("%s has only the newest %d of %d rows", list, len(kept), len(all)); !strings.Contains(how, want) {
		t.Errorf("meta.cut.how is %q, want %q", how, want)
	}
	return kept
}

// older returns the dates that a result names for the days that it lacks, and the words before.
func older(t *testing.T, content map[string]any) (call, from, to string) {
	t.Helper()
	how := content["meta"].(map[string]any)["cut"].(map[string]any)["how"].(string)
	m := regexp.MustCompile(`(call [a-z_ ]+) with start_date (\S+) and end_date (\S+)\.`).FindStringSubmatch(how)
	if m == nil {
		t.Fatalf("meta.cut.how does not say which days are missing: %q", how)
	}
	return m[1], m[2], m[3]
}

// Of days that do not fit, a result has the newest, and says how to get the older ones: both together are all days.
func TestMCP200NewestDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.properties["prefix"].ID
	all := w.get("agency", w.path("prefix", "/timeseries"), "date_range", "last_16m").ok(t).rows()

	content, text, failed := w.tool(t, "agency", "get_timeseries", map[string]any{"property": id, "date_range": "last_16m"})
	if failed {
		t.Fatalf("the days: %s", text)
	}
	kept := w.wantNewest(t, content, text, "data.rows", all)
	call, from, to := older(t, content)
	rest, _, _ := w.tool(t, "agency", "get_timeseries", map[string]any{"property": id, "start_date": from, "end_date": to})
	rows, _ := rest["data"].(map[string]any)["rows"].([]any)
	if both := append(rows, kept...); call != "call again" || !reflect.DeepEqual(both, all) {
		t.Errorf("%s with %s and %s gives %d rows, and with the %d of before not all", call, from, to, len(rows), len(kept))
	}

	content, text, _ = w.tool(t, "agency", "get_overview", map[string]any{"property": id, "date_range": "last_16m"})
	kept = w.wantNewest(t, content, text, "data.series", all)
	if call, from, to = older(t, content); call != "call get_timeseries" || from != dayOf(all[0]) || to != dayOf(all[len(all)-len(kept)-1]) {
		t.Errorf("an overview names %q, %s and %s", call, from, to)
	}
}

func dayOf(row any) string { return row.(map[string]any)["date"].(string) }

// The trend of the indexing and the annotations are by date too. The tools have no older days of a trend, but the REST API does.
func TestMCP200NewestOfOtherLists(t *testing.T) {
	t.Parallel()
	w, _ := newIndexedWorld(t)
	id, today := w.properties["main"].ID, w.server.calendar.Day(w.now())
	for age := range translate.Date(365) {
		w.must(w.store.SaveIndexDay(t.Context(), id, sqlstore.IndexDay{Date: today - age, URLs: 1_000_000 + int(age),
			Indexed: 900_000, NotIndexed: 100_000}))
	}
	arguments := map[string]any{"property": id, "include_trend": true, "days": 365}
	all := w.get("agency", w.path("main", "/indexing"), "include_trend", "true", "days", "365").ok(t).data()
	content, text, _ := w.tool(t, "agency", "get_indexing", arguments)
	w.wantNewest(t, content, text, "data.trend", all["trend"].([]any))
	if how := encoded(w, content["meta"].(map[string]any)["cut"]); !strings.Contains(how, "REST API") || strings.Contains(how, "call again") {
		t.Errorf("the cut trend: %s", how)
	}

	for i := range translate.Date(60) {
		_, err := w.store.AddAnnotation(t.Context(), id, sqlstore.Annotation{Date: today - 100 + i/2, Title: fmt.Sprint("launch ", i),
			Note: strings.Repeat("why ", 200)})
		w.must(err)
	}
	w.advance(time.Minute)
	notes := w.get("agency", w.path("main", "/annotations")).ok(t).rows()
	content, text, _ = w.tool(t, "agency", "get_context", map[string]any{"property": id})
	kept := w.wantNewest(t, content, text, "data.annotations", notes)
	if call, from, to := older(t, content); call != "call again" || from != dayOf(notes[0]) || to != dayOf(notes[len(notes)-len(kept)-1]) {
		t.Errorf("the cut annotations: %q, %s and %s", call, from, to)
	}
}

// Of lists that have no next page, a result names the tools that have the rows that do not fit, or else the REST API.
func TestMCP200WhereTheOtherRowsAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		var q struct {
			StartDate  string   `json:"startDate"`
			Dimensions []string `json:"dimensions"`
		}
		w.must(json.NewDecoder(r.Body).Decode(&q))
		keys, more := []string{q.StartDate}, 0
		if !slices.Equal(q.Dimensions, []string{"date"}) {
			keys, more = nil, int(q.StartDate[len(q.StartDate)-1]) // other clicks in each period
			for i := range 60 {
				keys = append(keys, fmt.Sprintf("https://www.example.org/shop/%d/%s", i, strings.Repeat("x", 1500)))
			}
		}
		rows := make([]string, len(keys))
		for i, key := range keys {
			rows[i] = fmt.Sprintf(`{"keys":["%s"],"clicks":%d,"impressions":100000,"position":3}`, key, (100-i)*(1+more))
		}
		mustWrite(rw, `{"rows":[`+strings.Join(rows, ",")+`]}`)
	})
	id := w.properties["prefix"].ID
	for name, c := range map[string]struct {
		arguments map[string]any
		want      string
	}{
		"find_movers":  {map[string]any{"property": id, "dimension": "page", "limit": 50, "date_range": "last_7d"}, "The REST API has the other rows."},
		"get_overview": {map[string]any{"property": id, "limit": 25, "date_range": "last_7d"}, "For the other rows call query_performance or find_movers."},
	} {
		content, text, failed := w.tool(t, "agency", name, c.arguments)
		cut, _ := content["meta"].(map[string]any)["cut"].(map[string]any)
		if how, _ := cut["how"].(string); failed || len(cut) < 2 || !strings.HasSuffix(how, c.want) || !strings.Contains(text, how) {
			t.Errorf("%s: %v\n%.300s", name, content["meta"], text)
		}
	}
}
