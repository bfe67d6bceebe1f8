// Package report is what a run of the harness found out, in a form that programs read (JSON) and in one that people do
// (Markdown, SVG). It measures nothing and has no state.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// A Report is one run.
type Report struct {
	Command      string        `json:"command"`
	Commit       string        `json:"commit"` // with "+" if files differed from it
	Began        time.Time     `json:"began"`
	Took         Seconds       `json:"took_seconds"`
	Machine      Machine       `json:"machine"`
	Measurements []Measurement `json:"measurements"`
	Comparisons  []Comparison  `json:"comparisons"`
	Savings      []Saving      `json:"savings,omitempty"`
	Growth       []Growth      `json:"growth,omitempty"`
}

// Seconds is a time as a number of seconds.
type Seconds float64

// Machine is where it ran.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Load is how many threads wanted a core in the minute before the run: above zero, others had their share of it.
	Load float64 `json:"load_before"`
}

// The kinds of loops.
const (
	Once   = "once"   // every request of a list, once
	Closed = "closed" // as fast as the answers come
	Open   = "open"   // at a fixed rate
)

// A Measurement is one loop of a scenario.
type Measurement struct {
	Scenario    string           `json:"scenario"`
	Loop        string           `json:"loop"`
	Connections int              `json:"connections"`
	Rate        float64          `json:"rate,omitempty"` // requests a second that were due, in an open loop
	Requests    int64            `json:"requests"`
	Statuses    map[int]int64    `json:"statuses"`
	Cache       map[string]int64 `json:"x_cache"`
	Took        Seconds          `json:"took_seconds"`
	Throughput  float64          `json:"throughput"` // answers a second
	Latency     Latency          `json:"latency_ms"`
	Request     Cost             `json:"per_request"`
	Resident    map[string]int64 `json:"resident_bytes"` // at the end, by process
	Held        Held             `json:"memory_cache"`   // at the end, of all replicas
	// Mix says of what scenarios the requests were, in percent; nil if of this one only.
	Mix map[string]int `json:"mix_percent,omitempty"`
	// Curve is the latencies in milliseconds at the percentiles of CurvePercentiles.
	Curve []float64 `json:"latency_curve_ms"`
}

// Held is what memory caches hold.
type Held struct {
	Entries float64 `json:"entries"` // rows and answers, counted together
	Bytes   float64 `json:"bytes"`
}

// Latency is in milliseconds: of a closed loop from sending, of an open one from when the request was due.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// CurvePercentiles are the percentiles of a latency curve.
func CurvePercentiles() []float64 {
	return []float64{0, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99, 100}
}

// Cost is what one request took, on average. Times are microseconds of processor time.
type Cost struct {
	CPU          map[string]float64 `json:"cpu_us"`         // by process: sara (all replicas), redis, client
	RedisCommand float64            `json:"redis_us"`       // in commands, by Redis' own clock: those that wait for a core count on
	RedisCalls   float64            `json:"redis_calls"`    // commands, without those that scripts call
	RedisReads   float64            `json:"redis_reads"`    // round trips: commands that arrive together share one
	Upstream     float64            `json:"upstream_calls"` // by the simulator's count
	Bytes        float64            `json:"response_bytes"` // with the head
	Objects      float64            `json:"allocations"`    // of sara, all replicas
	Allocated    float64            `json:"allocated_bytes"`
}

// A Comparison is sara against something else, measured in turns.
type Comparison struct {
	With        string  `json:"with"`
	About       string  `json:"about"`
	Connections int     `json:"connections"`
	Bytes       float64 `json:"response_bytes"` // of sara's
	Rounds      []Round `json:"rounds"`
	Throughput  Ratio   `json:"throughput_ratio"`
	PerCPU      Ratio   `json:"requests_per_cpu_second_ratio"`
	P99         Ratio   `json:"p99_ratio"`
}

// A Round is one turn of each.
type Round struct {
	Sara  Turn `json:"sara"`
	Other Turn `json:"other"`
}

// A Turn is one contender's figures of a round.
type Turn struct {
	Throughput float64 `json:"throughput"`
	PerCPU     float64 `json:"requests_per_cpu_second"` // of its own processes and Redis
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
}

// A Ratio is sara's figure to the other's over the rounds.
type Ratio = Spread

// A Spread is what several rounds say of one figure.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// A Saving is how many upstream calls the same requests take in several ways.
type Saving struct {
	What       string `json:"what"`
	Requests   int    `json:"requests"`
	Properties int    `json:"properties"` // that the requests are about
	Ways       []Way  `json:"ways"`       // sara, by the simulator's count, is the first
}

// A Way to answer, and what it calls.
type Way struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
}

// A Growth is what a request costs while one thing grows and all else stays.
type Growth struct {
	Name     string  `json:"name"`
	About    string  `json:"about"`    // what is asked
	Unit     string  `json:"unit"`     // of what grows
	Shape    string  `json:"shape"`    // that is expected: it grows no faster
	Exponent float64 `json:"exponent"` // of the power of X that fits best: 0 is flat, 1 is linear
	// Problem says how the curve differs from its shape; empty if it does not.
	Problem string  `json:"problem,omitempty"`
	Points  []Point `json:"points"` // ascending
}

// A Point of a growth curve. Its times are of one request; those of the latency are of closed loops.
type Point struct {
	X     float64            `json:"x"`
	CPU   Spread             `json:"cpu_us"`         // of sara and Redis together, in microseconds
	By    map[string]float64 `json:"cpu_us_by"`      // the medians of each
	P50   float64            `json:"p50_ms"`         // median of the rounds
	P99   float64            `json:"p99_ms"`         // median of the rounds
	Calls float64            `json:"upstream_calls"` // median of the rounds
}

// Save writes the report to a file as JSON.
func (r *Report) Save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Load reads a report that Save wrote.
func Load(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("read the report %s: %w", path, err)
	}
	return r, nil
}
