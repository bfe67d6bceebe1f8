package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"sara/bench/internal/report"
)

// The names of processes and of scenarios that the planner knows, as reports have them.
const (
	saraName   = "sara"
	redisName  = "redis"
	memoryName = "memory"
	agencyName = "agency"
)

// cost is what one request takes, on average.
type cost struct {
	sara, redis float64 // microseconds of processor time
	upstream    float64 // calls
	bytes       float64 // of the answer
	seconds     float64 // of the machine that measured: the inverse of its throughput
}

func (c cost) add(other cost, weight float64) cost {
	return cost{
		c.sara + weight*other.sara, c.redis + weight*other.redis, c.upstream + weight*other.upstream,
		c.bytes + weight*other.bytes, c.seconds + weight*other.seconds,
	}
}

// costOf is a measurement as a cost.
func costOf(m *report.Measurement) cost {
	return cost{m.Request.CPU[saraName], m.Request.CPU[redisName], m.Request.Upstream, m.Request.Bytes, 1 / m.Throughput}
}

// busiest returns the closed loop of a scenario with the most connections, where batches are as full as they get.
func busiest(r *report.Report, scenario string) *report.Measurement {
	var found *report.Measurement
	for i := range r.Measurements {
		m := &r.Measurements[i]
		if m.Scenario == scenario && m.Loop == report.Closed && (found == nil || m.Connections > found.Connections) {
			found = m
		}
	}
	return found
}

// calmest is the closed loop with the fewest connections.
func calmest(r *report.Report, scenario string) *report.Measurement {
	var found *report.Measurement
	for i := range r.Measurements {
		m := &r.Measurements[i]
		if m.Scenario == scenario && m.Loop == report.Closed && (found == nil || m.Connections < found.Connections) {
			found = m
		}
	}
	return found
}

// A mix is the share of each scenario; the shares add up to 1.
type mix map[string]float64

// parseMix reads memory=70,misses=2: weights of any sum.
func parseMix(text string) (mix, error) {
	weights := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		weight, err := strconv.ParseFloat(number, 64)
		if err != nil || weight < 0 || math.IsInf(weight, 0) || math.IsNaN(weight) {
			return nil, fmt.Errorf("%q is not of the form memory=70", part)
		}
		weights[name] += weight
	}
	return shares(weights)
}

func shares(weights map[string]float64) (mix, error) {
	total := 0.0
	for _, weight := range weights {
		total += weight
	}
	if total <= 0 {
		return nil, errors.New("the weights of the mix add up to nothing")
	}
	m := mix{}
	for name, weight := range weights {
		m[name] = weight / total
	}
	return m, nil
}

// measuredMix is what the mix scenario of a report was of, and its measurement; nil if there is none.
func measuredMix(r *report.Report) (mix, *report.Measurement, error) {
	m := busiest(r, "mix")
	if m == nil || m.Mix == nil {
		return nil, nil, nil
	}
	weights := map[string]float64{}
	for name, percent := range m.Mix {
		weights[name] = float64(percent)
	}
	of, err := shares(weights)
	return of, m, err
}

// blend is what a request of a mix costs, from the parts alone.
func (m mix) blend(r *report.Report) (c cost, err error) {
	for _, name := range slices.Sorted(maps.Keys(m)) { // in one order, so that sums are the same to the last digit
		part := busiest(r, name)
		if part == nil {
			return c, fmt.Errorf("the report has no closed loop of scenario %q", name)
		}
		c = c.add(costOf(part), m[name])
	}
	return c, nil
}

func (m mix) String() string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.4g %%", name, m[name]*100)
	}
	return strings.Join(names, ", ")
}

// ownCall is what Redis takes for a request that shares its call with no other, from how its time falls with the calls in
// which memory hits share: the slope is the time for a call, what is left without any the time for a request in it. It is
// zero if the report has only one loop of them.
func ownCall(r *report.Report) float64 {
	few, many := calmest(r, memoryName), busiest(r, memoryName)
	if few == nil || few.Request.RedisCalls <= many.Request.RedisCalls {
		return 0
	}
	slope := (few.Request.CPU[redisName] - many.Request.CPU[redisName]) / (few.Request.RedisCalls - many.Request.RedisCalls)
	return many.Request.CPU[redisName] + slope*(1-many.Request.RedisCalls)
}
