package gscsim

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestNumbersAreWrittenAsRecorded(t *testing.T) {
	// Values as real answers show them: 15 significant digits where they are exact, else 17, and no fraction of zero.
	for _, text := range []string{
		"17610", "0", "74", "0.011206046810858348", "10.073871456906991", "9.5440029550272758", "9.81503633693656",
		"0.01188598595104212", "9.4956935197486558", "9.4670100198290843", "3.6875", "1e-05", "0.0001",
	} {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(appendNumber(nil, v)); got != text {
			t.Errorf("%s is written %s", text, got)
		}
	}
}

func TestStringsKeepTheirText(t *testing.T) {
	for _, text := range []string{"", "plain", `a "quoted" \ word`, "two\nlines\x00", "<b>&</b>", "東京 靴 🌷", "\u2028", "del\x7f"} {
		encoded := appendString(nil, text)
		var back string
		if err := json.Unmarshal(encoded, &back); err != nil || back != text || strings.ContainsAny(string(encoded), "<>&\n") {
			t.Errorf("%q is written %s, %v", text, encoded, err)
		}
	}
}

// FuzzQuery sends any body as a query; it is answered or refused, and the answer is JSON.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`{"startDate":"2026-08-08","endDate":"2026-08-14","dimensions":["query","page"],"rowLimit":5,"startRow":2}`,
		`{"startDate":"2026-08-08","endDate":"2026-08-14","dimensions":["hour"],"dataState":"hourly_all"}`,
		`{"startDate":"0000-01-01","endDate":"9999-12-31","dimensions":["date"],"type":"WEB"}`,
		`{"startDate":"2026-08-08","endDate":"2026-08-14","dimensionFilterGroups":[{"groupType":"and","filters":[{"dimension":"query","operator":"includingRegex","expression":"a|(b"}]}]}`,
	} {
		f.Add(seed)
	}
	const site = "sc-domain:small.example"
	s := New(Config{
		Now:    func() time.Time { return time.Date(2026, 8, 16, 19, 30, 0, 0, time.UTC) },
		Quotas: Quotas{SearchPerMinute: -1},
		Users:  []User{{Sites: []Site{{URL: site, Queries: 20, Pages: 10}}}},
	})
	token := s.tokens.issue(0, s.config.Now().Add(time.Hour), true)
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/webmasters/v3/sites/"+site+"/searchAnalytics/query", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}

func TestAnswersAreCompressedWhenAsked(t *testing.T) {
	s := New(Config{Now: time.Now})
	for accept, want := range map[string]string{"": "", "gzip": "gzip", "deflate, gzip;q=0.5": "gzip", "br": ""} {
		r := httptest.NewRequest(http.MethodGet, "/webmasters/v3/sites", nil)
		r.Header.Set("Accept-Encoding", accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding"); got != want || w.Header().Get("Content-Type") != "application/json; charset=UTF-8" {
			t.Errorf("asked for %q: %v", accept, w.Header())
		}
	}
}
