package main

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/jobs/inspector"
)

// tellInspecting plays a run with two properties, one of which pauses, is short of quota, and fails.
func tellInspecting(p inspector.Progress) {
	shop, blog := inspector.Property{ID: "1", Site: "sc-domain:shop.example"}, inspector.Property{ID: "2", Site: "sc-domain:blog.example"}
	p.Discovered(shop, 9, true, []inspector.SitemapProblem{{Path: "https://shop.example/s.xml", Problem: "it answers 404"}})
	p.Started(shop, 9)
	p.Inspected(shop, "https://shop.example/1")
	p.UnknownLabel(shop, "Set aside")
	p.Paused(shop, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), errors.New("over quota"))
	p.Discovered(blog, 2, false, nil)
	p.Started(blog, 2)
	p.Inspected(blog, "https://blog.example/1")
	p.Inspected(blog, "https://blog.example/2")
	p.Ended(blog, nil)
	p.Inspected(shop, "https://shop.example/2")
	p.Ended(shop, errors.New("no access"))
}

func TestInspectingInLines(t *testing.T) {
	var out bytes.Buffer
	progress, end := newInspecting(&out)
	tellInspecting(progress)
	end()
	want := "sc-domain:shop.example: 9 URLs, the most important of those that there are\n" +
		"sc-domain:shop.example: sitemap https://shop.example/s.xml: it answers 404\n" +
		"sc-domain:shop.example: 9 URLs to inspect\n" +
		"sc-domain:shop.example: Search Console says \"Set aside\", which is in no bucket that is known\n" +
		"sc-domain:shop.example: over quota; again at 2026-11-01T00:00:00Z\n" +
		"sc-domain:blog.example: 2 URLs\n" +
		"sc-domain:blog.example: 2 URLs to inspect\n" +
		"sc-domain:blog.example: done\n" +
		"sc-domain:shop.example: no access\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The URLs that the day has no room for are given up.
func TestInspectingInABar(t *testing.T) {
	var out bytes.Buffer
	bar := inspectingBar{newBar(&out, "URLs", 0)}
	tellInspecting(bar)
	if done, all := bar.bar.bar.State().CurrentNum, bar.bar.bar.GetMax(); done != 4 || all != 4+1 {
		t.Errorf("the bar is at %d of %d, want 4 of 5", done, all)
	}
	bar.end()
	for _, want := range []string{"sc-domain:shop.example: no access\n", "over quota; again at 2026-11-01T00:00:00Z\n", `says "Set aside"`,
		"sitemap https://shop.example/s.xml: it answers 404\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing above the bar says %q:\n%q", want, out.String())
		}
	}
	if !regexp.MustCompile(`https://blog\.example/\d`).MatchString(out.String()) || strings.Contains(out.String(), ": done") {
		t.Errorf("the bar does not say what is being inspected:\n%q", out.String())
	}
}

func TestInspectingInTheLogAndTheMetrics(t *testing.T) {
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	log := newInspectingLog(slog.New(slog.NewTextHandler(&out, nil)), registry)
	tellInspecting(log)
	log.report(t.Context(), []inspector.Result{{Inspected: 2}, {Inspected: 2, Err: errors.New("no access")}}, nil)
	log.report(t.Context(), nil, errors.New("the store is out"))
	for _, want := range []string{
		"level=INFO msg=discovered property=1 site=sc-domain:shop.example urls=9 capped=true",
		"level=WARN msg=\"a sitemap was not read\" property=1 sitemap=https://shop.example/s.xml problem=\"it answers 404\"",
		"level=INFO msg=inspecting property=1 site=sc-domain:shop.example urls=9",
		"level=WARN msg=\"a coverage label is not known\" property=1 label=\"Set aside\"",
		"level=WARN msg=\"inspecting pauses\" property=1 until=2026-11-01T00:00:00.000Z error=\"over quota\"",
		"level=INFO msg=inspected property=2 site=sc-domain:blog.example",
		"level=WARN msg=\"not inspected\" property=1 site=sc-domain:shop.example error=\"no access\"",
		"level=INFO msg=\"daily inspections\" properties=2 urls=4 failed=1",
		"level=ERROR msg=\"the daily inspections stopped\" properties=0 urls=0 failed=0 error=\"the store is out\"",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, out.String())
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := make(map[string]float64)
	for _, f := range families {
		counted[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
	}
	for name, want := range map[string]float64{
		"sara_index_inspections_total": 4, "sara_index_unknown_labels_total": 1, "sara_index_sitemap_problems_total": 1,
	} {
		if counted[name] != want {
			t.Errorf("%s is %v, want %v", name, counted[name], want)
		}
	}
}
