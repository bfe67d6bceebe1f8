package main

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/bench/internal/report"
)

// The whole result from two reports that runs left. To write it anew: UPDATE_GOLDEN=1 go test ./bench/plan
func TestPlanOfARun(t *testing.T) {
	for name, args := range map[string][]string{
		"as-measured.md": {"-growth", "testdata/growth.json"},
		"other-mix.md":   {"-mix", "memory=60,misses=40", "-rate", "300", "-cores", "2", "-properties", "10", "-key-rate", "5"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := start(append(args, "-from", "testdata/load.json"), &out); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Errorf("got\n%s\nwant\n%s", &out, want)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for what, args := range map[string][]string{
		"no report":               nil,
		"a report that is not":    {"-from", "testdata/nothing.json"},
		"a mix without numbers":   {"-from", "testdata/load.json", "-mix", "memory"},
		"a mix of nothing":        {"-from", "testdata/load.json", "-mix", "memory=0"},
		"a share below zero":      {"-from", "testdata/load.json", "-mix", "memory=-1"},
		"what was not measured":   {"-from", "testdata/load.json", "-mix", "nonsense=1"},
		"a report without a mix":  {"-from", "testdata/growth.json"},
		"more than all the time":  {"-from", "testdata/load.json", "-use", "1.5"},
		"no requests":             {"-from", "testdata/load.json", "-rate", "0"},
		"a number that is none":   {"-from", "testdata/load.json", "-rate", "NaN"},
		"no properties to ask of": {"-from", "testdata/load.json", "-properties", "0"},
	} {
		if err := start(args, io.Discard); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}

func sampleModel() model {
	return model{
		cost: cost{sara: 100, redis: 10, upstream: .01, bytes: 8000}, apart: 90, lookup: 500,
		assumed: assumed{cores: 4, use: .5, gigabits: 10, keyRate: 1, lookups: 20_000, sites: 100, clients: 10_000, clientsPer: 10},
	}
}

func TestNeedByHand(t *testing.T) {
	m := sampleModel()
	m.lookup = 0
	n := m.at(10_000)
	for what, pair := range map[string][2]float64{
		"cores": {n.cores, 1}, "replicas": {n.replicas, 1}, "Redis": {n.redis, .2}, "Redis apart": {n.redisApart, 2},
		"calls a minute": {n.calls, 6000}, "projects": {n.projects, .15}, "Gbit/s": {n.gigabits, .64}, "connections": {n.connections, 40},
		"look-ups, of two for each key that asks within half a minute, and one": {n.lookups, 2*10_000*(1-math.Exp(-30))/30 + 1}, "notices": {n.notifications, 100},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9*pair[1] {
			t.Errorf("%s: %g, want %g", what, pair[0], pair[1])
		}
	}
}

// More requests never need less of anything.
func TestNeedsGrowWithTheRate(t *testing.T) {
	m := sampleModel()
	before := m.at(1)
	for rate := 2.0; rate < 1e7; rate *= 1.7 {
		n := m.at(rate)
		for _, l := range limits() {
			if l.load(m, n) < l.load(m, before) {
				t.Errorf("%s: at %.0f a second less than before", l.name, rate)
			}
		}
		before = n
	}
}

// A breach is where one is just not enough: a little below, it is.
func TestBreachesAreWhereOneIsNotEnough(t *testing.T) {
	m := sampleModel()
	const most = 1e6
	found := m.breaches(most)
	if len(found) == 0 {
		t.Fatal("nothing breaks up to a million")
	}
	last := 0.0
	for _, b := range found {
		if b.rate < last {
			t.Errorf("%s breaks at %.0f, after what breaks at %.0f", b.name, b.rate, last)
		}
		last = b.rate
		if under, over := b.load(m, m.at(b.rate*.99)), b.load(m, m.at(b.rate*1.01)); under > 1 || over <= 1 {
			t.Errorf("%s: %.3f just below %.0f a second, %.3f just above", b.name, under, b.rate, over)
		}
		if b.then == "" {
			t.Errorf("%s: and then?", b.name)
		}
	}
}

func TestOwnCallIsExtrapolated(t *testing.T) {
	loop := func(connections int, calls, redis float64) report.Measurement {
		return report.Measurement{Scenario: memoryName, Loop: report.Closed, Connections: connections,
			Request: report.Cost{RedisCalls: calls, CPU: map[string]float64{redisName: redis}}}
	}
	r := &report.Report{Measurements: []report.Measurement{loop(16, .25, 27), loop(128, .05, 7)}}
	if own := ownCall(r); math.Abs(own-102) > 1e-9 {
		t.Errorf("a call of its own takes %g, want 2 + 100", own)
	}
	r.Measurements = r.Measurements[:1]
	if own := ownCall(r); own != 0 {
		t.Errorf("from one loop: %g", own)
	}
}

func TestMixIsWritten(t *testing.T) {
	m, err := parseMix("misses=1,memory=2,stored=1")
	if err != nil || m.String() != "memory 50 %, misses 25 %, stored 25 %" {
		t.Errorf("%s (%v)", m, err)
	}
	if text := whole(1234567.8); text != "1,234,568" || whole(12) != "12" || !strings.HasPrefix(whole(1000), "1,") {
		t.Errorf("a number is written %s", text)
	}
}
