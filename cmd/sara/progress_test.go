package main

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"sara/proxy/jobs/collector"
	"sara/translate"
)

// tell plays a run with two properties, one of which pauses and fails.
func tell(p collector.Progress) {
	shop, blog := collector.Property{ID: "1", Site: "sc-domain:shop.example"}, collector.Property{ID: "2", Site: "sc-domain:blog.example"}
	day := translate.NewDate(2026, 11, 1)
	p.Started(shop, 4)
	p.Collected(shop, day)
	p.Paused(shop, day.Time(), errors.New("over quota"))
	p.Started(blog, 2)
	p.Collected(blog, day)
	p.Collected(blog, day+1)
	p.Pruned(blog, day-900)
	p.Ended(blog, nil)
	p.Started(shop, 3)
	p.Collected(shop, day+1)
	p.Ended(shop, errors.New("no access"))
}

func TestProgressInLines(t *testing.T) {
	var out bytes.Buffer
	progress, end := newProgress(&out)
	tell(progress)
	end()
	want := "sc-domain:shop.example: 4 days to collect\n" +
		"sc-domain:shop.example: over quota; again at 2026-11-01T00:00:00Z\n" +
		"sc-domain:blog.example: 2 days to collect\n" +
		"sc-domain:blog.example: days before 2024-05-15 are forgotten\n" +
		"sc-domain:blog.example: complete\n" +
		"sc-domain:shop.example: 3 days to collect\n" +
		"sc-domain:shop.example: no access\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The days of a property that pauses count once, and those of one that failed no more.
func TestProgressInABar(t *testing.T) {
	var out bytes.Buffer
	bar := collectingBar{newBar(&out, "days", 0)}
	tell(bar)
	if done, all := bar.bar.bar.State().CurrentNum, bar.bar.bar.GetMax(); done != 4 || all != 4+1 {
		t.Errorf("the bar is at %d of %d, want 4 of 5", done, all)
	}
	bar.end()
	for _, want := range []string{"sc-domain:shop.example: no access\n", "sc-domain:shop.example: over quota; again at 2026-11-01T00:00:00Z\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing above the bar says %q:\n%q", want, out.String())
		}
	}
	if !regexp.MustCompile(`sc-domain:shop\.example 2026-11-0\d`).MatchString(out.String()) || strings.Contains(out.String(), "complete") {
		t.Errorf("the bar does not say what is being collected:\n%q", out.String())
	}
}

func TestProgressInTheLog(t *testing.T) {
	var out bytes.Buffer
	log := logProgress{slog.New(slog.NewTextHandler(&out, nil))}
	tell(log)
	log.report(t.Context(), []collector.Result{{Days: 2}, {Days: 2, Err: errors.New("no access")}}, nil)
	log.report(t.Context(), nil, errors.New("the store is out"))
	for _, want := range []string{
		"level=INFO msg=collecting property=1 site=sc-domain:shop.example days=4",
		"level=WARN msg=\"collecting pauses\" property=1 until=" + time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Format("2006-01-02T15:04:05.000Z"),
		"level=INFO msg=\"forgot what the plan does not keep\" property=2 before=2024-05-15",
		"level=INFO msg=collected property=2",
		"level=WARN msg=\"not collected\" property=1 site=sc-domain:shop.example error=\"no access\"",
		"level=INFO msg=\"daily run\" properties=2 days=4 failed=1",
		"level=ERROR msg=\"the daily run stopped\" properties=0 days=0 failed=0 error=\"the store is out\"",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, out.String())
		}
	}
}
