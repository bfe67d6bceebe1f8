package reporting

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sara/archive/atomicfile"
)

// quiet is a Progress that learns nothing.
type quiet struct{}

func (quiet) Planned(map[string]int)           {}
func (quiet) Wrote(Property, string)           {}
func (quiet) Ended(Property)                   {}
func (quiet) Waiting(string, time.Time, error) {}

// daily is a server whose last day is a different one each time, and which ends a run after so many answers.
type daily struct {
	day     string
	answers int
	ended   func()
}

// RoundTrip implements http.RoundTripper.
func (d *daily) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.answers--; d.answers < 0 {
		d.ended()
		return nil, context.Canceled
	}
	days := `"date_range":{"start_date":"` + d.day + `","end_date":"` + d.day + `"}`
	body := `{"success":true,"data":{"rows":[{"property_id":"1","slug":"shop","totals":{"clicks":1}}]},"meta":{"total":1,` + days + `}}`
	if strings.HasSuffix(r.URL.Path, "/devices") {
		body = `{"success":true,"data":{"dimension":"device","rows":[{"key":"MOBILE","clicks":1}]},"meta":{"has_more":false,` + days + `}}`
	}
	return (&answers{list: []answer{{status: 200, body: body}}}).RoundTrip(r)
}

// A replaced report that was killed before its record was saved leaves none of the report before: with it, a run that resumes would take the
// new files for those of the earlier days, and read the others for those days.
func TestAReplacedReportLeavesNoRecordOfTheOneBefore(t *testing.T) {
	path := t.TempDir()
	now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
	write := func(mode Mode, day string, answers int, killed bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		folder, err := OpenFolder(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		kill := func() { // nothing is written from here on
			cancel()
			if err := folder.Close(); err != nil {
				t.Error(err)
			}
		}
		server := &daily{day: day, answers: answers, ended: kill}
		_, err = Write(ctx, Config{Now: now, Question: Question{Preset: "last_7d", Compare: "none", Limit: 10, Format: CSV}, Tables: []string{"devices"},
			Client: &Client{URL: "http://sara.example", Key: "k", Now: now, Transport: server}, Progress: quiet{}}, folder)
		if (err != nil) != killed {
			t.Fatalf("%s: %v, want an error: %t", day, err, killed)
		}
		if !killed {
			kill()
		}
	}
	write(New, "2026-11-20", 2, false)
	write(Replace, "2026-11-21", 1, true)
	write(Resume, "2026-11-22", 2, false)
	for _, file := range []string{"portfolio.csv", "devices/shop.csv"} {
		text, err := os.ReadFile(filepath.Join(path, filepath.FromSlash(file)))
		if err != nil || !strings.Contains(string(text), "2026-11-22") {
			t.Errorf("%s: %s, %v", file, text, err)
		}
	}
	if record, err := os.ReadFile(filepath.Join(path, recordFile)); err != nil || !strings.Contains(string(record), "2026-11-22") {
		t.Errorf("the record: %s, %v", record, err)
	}
}

// A folder with the report of some properties is not that of all: to resume it as such would call it complete.
func TestAReportOfOtherPropertiesIsAnotherReport(t *testing.T) {
	t.Parallel()
	question := Question{Preset: "last_7d", Compare: "none", Limit: 10, Format: CSV, Select: []string{"shop"}}
	path := t.TempDir()
	now := func() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }
	write := func(mode Mode, q Question) error {
		folder, err := OpenFolder(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		transport := &answers{list: []answer{
			{status: 200, body: `{"success":true,"data":{"rows":[{"id":"1","slug":"shop","archived":false},{"id":"2","slug":"blog","archived":false}]}}`},
			{status: 200, body: `{"success":true,"data":{"totals":{"clicks":1}},"meta":{"date_range":{"start_date":"2026-11-17","end_date":"2026-11-23"}}}`},
		}}
		_, err = Write(t.Context(), Config{Now: now, Question: q, Progress: quiet{},
			Client: &Client{URL: "http://sara.example", Key: "k", Now: now, Transport: transport}}, folder)
		return errors.Join(err, folder.Close())
	}
	if err := write(New, question); err != nil {
		t.Fatal(err)
	}
	if err := write(Resume, question); err != nil {
		t.Errorf("the same report: %v", err)
	}
	question.Select = nil
	if err := write(Resume, question); err == nil || !strings.Contains(err.Error(), "has another report, of --date-range last_7d") ||
		!strings.Contains(err.Error(), "--format csv shop:") {
		t.Errorf("all properties: %v", err)
	}
}

// Two runs would mix their files in the folder. What a killed run has left is deleted.
func TestAFolderHasOneRun(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	first, err := OpenFolder(path, New)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{New, Resume, Replace} {
		if _, err := OpenFolder(path, mode); err == nil || !strings.Contains(err.Error(), "another run of sara is writing into "+path) {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
	left := filepath.Join("queries", atomicfile.TemporaryPrefix+rand.Text())
	if err := errors.Join(os.Mkdir(filepath.Join(path, "queries"), 0o700), os.WriteFile(filepath.Join(path, left), nil, 0o600),
		first.Close()); err != nil {
		t.Fatal(err)
	}
	second, err := OpenFolder(path, Resume)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", left, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
