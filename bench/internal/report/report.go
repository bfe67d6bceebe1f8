// Package report has the results of a benchmark run, and writes them as JSON for programs and as Markdown for people.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Report is one run.
type Report struct {
	Command      string        `json:"command"`
	Commit       string        `json:"commit"` // with "+" if the working tree differs from it
	Began        time.Time     `json:"began"`
	Took         Seconds       `json:"took_seconds"`
	Machine      Machine       `json:"machine"`
	Measurements []Measurement `json:"measurements"`
	Footprints   []Footprint   `json:"footprints,omitempty"`
	Comparisons  []Comparison  `json:"comparisons"`
	Savings      []Saving      `json:"savings,omitempty"`
	Growth       []Growth      `json:"growth,omitempty"`
}

// Seconds is a duration.
type Seconds float64

// Machine describes the machine that ran it.
type Machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	// Load is the load average of the minute before the run. If it is above zero, other processes also used the machine.
	Load float64 `json:"load_before"`
}

// The kinds of loops.
const (
	Once   = "once"   // each request of a list once
	Closed = "closed" // each connection sends as soon as it has the previous answer
	Open   = "open"   // at a fixed rate
)

// A Measurement is one loop of a scenario.
type Measurement struct {
	Run         int              `json:"run,omitempty"` // from 0; each run has its own servers
	Scenario    string           `json:"scenario"`
	Loop        string           `json:"loop"`
	Connections int              `json:"connections"`
	Rate        float64          `json:"rate,omitempty"`  // requests a second of an open loop
	Share       float64          `json:"share,omitempty"` // the rate as a fraction of the highest throughput of the scenario
	Requests    int64            `json:"requests"`
	Statuses    map[int]int64    `json:"statuses"`
	Cache       map[string]int64 `json:"x_cache"`
	Took        Seconds          `json:"took_seconds"`
	Throughput  float64          `json:"throughput"` // answers a second
	Latency     Latency          `json:"latency_ms"`
	Request     Cost             `json:"per_request"`
	Resident    map[string]int64 `json:"resident_bytes"` // at the end, by process
	Held        Held             `json:"memory_cache"`   // at the end, of all replicas
	// Mix is the percentage of each scenario among the requests; nil if there is only this one.
	Mix map[string]int `json:"mix_percent,omitempty"`
	// Curve is the latencies in milliseconds at the percentiles of CurvePercentiles.
	Curve []float64 `json:"latency_curve_ms"`
}

// A Footprint is the memory of one replica in a state.
type Footprint struct {
	Run      int     `json:"run,omitempty"`
	State    string  `json:"state"`
	Entries  float64 `json:"cache_entries"`
	Cache    float64 `json:"cache_bytes"`
	Heap     float64 `json:"heap_bytes"` // in use, including garbage
	Resident float64 `json:"resident_bytes"`
	Peak     float64 `json:"peak_resident_bytes"`     // since the replica was started
	Body     float64 `json:"upstream_body,omitempty"` // bytes of the largest upstream body since the last state
}

// Held is the content of memory caches.
type Held struct {
	Entries float64 `json:"entries"` // rows and answers
	Bytes   float64 `json:"bytes"`
}

// Latency is in milliseconds. It counts from sending in a closed loop, and from when the request was due in an open loop.
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

// Cost is the mean cost of one request. Times are microseconds of processor time.
type Cost struct {
	CPU          map[string]float64 `json:"cpu_us"`         // by process: sara (all replicas), redis, client
	RedisCommand float64            `json:"redis_us"`       // in commands, by Redis' clock, including waits for a core
	RedisCalls   float64            `json:"redis_calls"`    // commands, excluding those that scripts call
	RedisReads   float64            `json:"redis_reads"`    // round trips: a pipeline of commands is one
	Upstream     float64            `json:"upstream_calls"` // by the simulator's count
	Bytes        float64            `json:"response_bytes"` // including headers
	Objects      float64            `json:"allocations"`    // of all replicas
	Allocated    float64            `json:"allocated_bytes"`
}

// A Comparison is sara against another server, measured in turns.
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

// A Round is one turn of each server.
type Round struct {
	Run   int  `json:"run,omitempty"`
	Sara  Turn `json:"sara"`
	Other Turn `json:"other"`
}

// A Turn is the result of one server in a round.
type Turn struct {
	Throughput float64 `json:"throughput"`
	PerCPU     float64 `json:"requests_per_cpu_second"` // of the server's processes and its Redis
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
}

// A Ratio is sara's figure divided by the other server's, over all rounds.
type Ratio = Spread

// A Spread is the median and range of a figure over several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// A Saving compares the upstream calls that the same requests cause in several designs.
type Saving struct {
	What       string `json:"what"`
	Requests   int    `json:"requests"`
	Properties int    `json:"properties"` // properties that the requests read
	Ways       []Way  `json:"ways"`       // the first is sara, as the simulator counted
}

// A Way is one design with its upstream calls.
type Way struct {
	Name  string  `json:"name"`
	Calls float64 `json:"calls"`
}

// A Growth is the cost of a request as one quantity grows and everything else stays the same.
type Growth struct {
	Name     string  `json:"name"`
	About    string  `json:"about"`    // what is requested
	Unit     string  `json:"unit"`     // of the quantity that grows
	Shape    string  `json:"shape"`    // expected: the curve grows no faster
	Exponent float64 `json:"exponent"` // of the fitted power of X: 0 is flat, 1 is linear
	// Problem describes how the curve exceeds its shape; empty if it does not.
	Problem string  `json:"problem,omitempty"`
	Points  []Point `json:"points"` // ascending
}

// A Point of a growth curve. Its figures are per request; latencies are those of closed loops.
type Point struct {
	X     float64            `json:"x"`
	CPU   Spread             `json:"cpu_us"`         // of sara and Redis together, in microseconds
	By    map[string]float64 `json:"cpu_us_by"`      // the medians of each
	P50   float64            `json:"p50_ms"`         // median of the rounds
	P99   float64            `json:"p99_ms"`         // median of the rounds
	Calls float64            `json:"upstream_calls"` // median of the rounds
}

// New starts the report of a program of this module that was run with these arguments.
func New(program string, args []string) *Report {
	command := strings.Join(append([]string{"go run ./" + program}, args...), " ")
	return &Report{Command: command, Commit: thisCommit(), Began: time.Now(), Machine: thisMachine()}
}

// Progress returns a function that writes a line with the seconds since the start.
func (r *Report) Progress(w io.Writer) func(format string, values ...any) {
	return func(format string, values ...any) {
		_, _ = fmt.Fprintf(w, "%5.1f s  "+format+"\n", append([]any{time.Since(r.Began).Seconds()}, values...)...)
	}
}

// Finish sets the duration, writes the report into a folder unless that is empty, and prints it as Markdown.
func (r *Report) Finish(folder, name string, w io.Writer) error {
	r.Took = Seconds(time.Since(r.Began).Seconds())
	if folder != "" {
		if err := r.Publish(folder, name); err != nil {
			return err
		}
	}
	return r.Markdown(w)
}

// Save writes the report as JSON.
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

// Publish writes NAME.json and NAME.md into a folder, which it creates if necessary.
func (r *Report) Publish(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := r.Save(filepath.Join(folder, name+".json")); err != nil {
		return err
	}
	var text strings.Builder
	if err := r.Markdown(&text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".md"), []byte(text.String()), 0o644)
}
