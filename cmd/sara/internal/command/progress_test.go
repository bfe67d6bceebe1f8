package command

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/jobs/collector"
	"sara/proxy/jobs/inspector"
	"sara/proxy/jobs/schedule"
	"sara/proxy/upstream"
	"sara/translate"
)

// playRun plays a run of both jobs: the first property pauses, is short of quota, and fails.
func playRun(p schedule.Progress) {
	shop := upstream.Target{PropertyID: "1", Site: "sc-domain:shop.example"}
	blog := upstream.Target{PropertyID: "2", Site: "sc-domain:blog.example"}
	p.Noticed(shop, inspector.Discovered{URLs: 9, Capped: true})
	p.Noticed(shop, inspector.SitemapProblem{Path: "https://shop.example/s.xml", Problem: "it answers 404"})
	p.Started(shop, 9)
	p.Advanced(shop, "shop 1")
	p.Noticed(shop, inspector.UnknownLabel("Set aside"))
	p.Paused(shop, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), errors.New("over quota"))
	p.Noticed(blog, inspector.Discovered{URLs: 2})
	p.Started(blog, 2)
	p.Advanced(blog, "blog 1")
	p.Advanced(blog, "blog 2")
	p.Noticed(blog, collector.Pruned{Before: translate.NewDate(2024, 5, 15)})
	p.Ended(blog, nil)
	p.Started(shop, 8)
	p.Advanced(shop, "shop 2")
	p.Ended(shop, errors.New("no access"))
}

func TestProgressLinesKnowTheWholeAndPrintEqualProblemsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		progress, end := newProgress(&out, inspecting)
		progress.Planned(map[string]int{"1": 9, "2": 2, "3": 1000})
		playRun(progress)
		progress.Ended(upstream.Target{PropertyID: "3", Site: "sc-domain:news.example"}, errors.New("no access"))
		end()
		end()
		want := "3 properties to inspect: 1,011 URLs\n" +
			"sc-domain:shop.example: sitemap https://shop.example/s.xml: it answers 404\n" +
			"sc-domain:shop.example: Search Console reports \"Set aside\", which is in no known bucket\n" +
			"sc-domain:shop.example: over quota; next attempt at 2026-11-01T00:00:00Z\n" +
			"sc-domain:blog.example: deleted the days before 2024-05-15\n" +
			"sc-domain:shop.example: no access\n" +
			"3 of 3 properties, 4 of 4 URLs\n" +
			"1 time more: no access\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

func TestProgressPrintsALineAMinuteWithoutTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		progress, end := newProgress(&out, collecting)
		shop := upstream.Target{PropertyID: "1", Site: "sc-domain:shop.example"}
		progress.Planned(map[string]int{"1": 488, "2": 488})
		progress.Started(shop, 488)
		for range 122 {
			progress.Advanced(shop, "")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		progress.Ended(shop, nil)
		end()
		want := "2 properties to collect: 976 days\n" +
			"0 of 2 properties, 122 of 976 days (12 %), about 7m0s left\n" +
			"1 of 2 properties, 122 of 610 days (20 %), about 4m0s left\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

// The steps of a property that pauses count once; those that a property leaves undone are dropped.
func TestProgressBar(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	bar := newBar(newProgressLines(&out, collecting), 0)
	playRun(bar)
	if done, all := bar.bar.State().CurrentNum, bar.bar.GetMax(); done != 4 || all != 4+1 {
		t.Errorf("the bar is at %d of %d, want 4 of 5", done, all)
	}
	bar.end()
	for _, want := range []string{"sc-domain:shop.example: no access\n", "over quota; next attempt at 2026-11-01T00:00:00Z\n",
		`reports "Set aside"`, "sitemap https://shop.example/s.xml: it answers 404\n", "blog 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%q", want, out.String())
		}
	}
	if strings.Contains(out.String(), ": done") {
		t.Errorf("success is printed above the bar:\n%q", out.String())
	}
}

func wantLog(t *testing.T, out string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(out, want) {
			t.Errorf("the log lacks %s:\n%s", want, out)
		}
	}
}

func TestProgressOfCollectorInLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := jobLog{slog.New(slog.NewTextHandler(&out, nil)), collecting}
	playRun(log)
	log.collected(t.Context(), []collector.Result{{Days: 2}, {Days: 2, Err: errors.New("no access")}}, nil)
	log.collected(t.Context(), nil, errors.New("the store is down"))
	wantLog(t, out.String(),
		"level=INFO msg=collecting property=1 site=sc-domain:shop.example days=9",
		"level=WARN msg=\"collecting pauses\" property=1 until=2026-11-01T00:00:00.000Z error=\"over quota\"",
		"level=INFO msg=\"deleted days that the plan does not keep\" property=2 before=2024-05-15",
		"level=INFO msg=collected property=2",
		"level=WARN msg=\"not collected\" property=1 site=sc-domain:shop.example error=\"no access\"",
		"level=INFO msg=\"daily collecting done\" properties=2 days=4 failed=1",
		"level=ERROR msg=\"daily collecting failed\" properties=0 days=0 failed=0 error=\"the store is down\"")
}

func TestProgressOfInspectorInLogAndMetrics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	log := newInspectionLog(slog.New(slog.NewTextHandler(&out, nil)), registry)
	playRun(log)
	log.inspected(t.Context(), []inspector.Result{{Inspected: 2}, {Inspected: 2, Err: errors.New("no access")}}, nil)
	log.inspected(t.Context(), nil, errors.New("the store is down"))
	wantLog(t, out.String(),
		"level=INFO msg=discovered property=1 site=sc-domain:shop.example urls=9 capped=true",
		"level=WARN msg=\"a sitemap was not read\" property=1 sitemap=https://shop.example/s.xml problem=\"it answers 404\"",
		"level=INFO msg=inspecting property=1 site=sc-domain:shop.example urls=9",
		"level=WARN msg=\"a coverage label is not known\" property=1 label=\"Set aside\"",
		"level=WARN msg=\"inspecting pauses\" property=1 until=2026-11-01T00:00:00.000Z error=\"over quota\"",
		"level=INFO msg=inspected property=2 site=sc-domain:blog.example",
		"level=WARN msg=\"not inspected\" property=1 site=sc-domain:shop.example error=\"no access\"",
		"level=INFO msg=\"daily inspecting done\" properties=2 urls=4 failed=1",
		"level=ERROR msg=\"daily inspecting failed\" properties=0 urls=0 failed=0 error=\"the store is down\"")
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
