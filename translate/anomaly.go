package translate

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// An Anomaly is an event at the upstream that distorts figures of web search. Figures are never corrected for it.
type Anomaly struct {
	ID      string
	Start   Date
	End     *Date // included; nil: a window that is still open, or a step whose first day is known
	Step    bool  // from that day on, figures are computed differently; else only those of the days themselves are wrong
	Metrics []string
	Effect  string // in a sentence, for people
	Source  string // URL

	note string // in the answers that it concerns
}

// Anomalies are sorted by first day.
type Anomalies []Anomaly

// The bounds of a file of anomalies, which also bound the notes of an answer.
const (
	maxAnomalies     = 100
	maxAnomalyID     = 80
	maxAnomalyEffect = 500
)

// Kinds of anomalies, as in a file and in answers.
const (
	AnomalyWindow = "window"
	AnomalyStep   = "step"
)

// AnomalyMetrics returns the metrics that an anomaly can distort.
func AnomalyMetrics() []string { return []string{"clicks", "impressions", "ctr", "position"} }

//go:embed anomalies.yaml
var knownAnomalies []byte

// KnownAnomalies returns the built-in anomalies.
func KnownAnomalies() Anomalies {
	known, err := ReadAnomalies(bytes.NewReader(knownAnomalies))
	if err != nil {
		panic("BUG: the built-in anomalies: " + err.Error())
	}
	return known
}

// An anomalyEntry is an anomaly as a file has it.
type anomalyEntry struct {
	ID         string   `yaml:"id"`
	Start      string   `yaml:"start_date"`
	End        string   `yaml:"end_date"`
	Kind       string   `yaml:"kind"`
	Metrics    []string `yaml:"metrics"`
	SearchType []string `yaml:"search_types"` // empty: web
	Effect     string   `yaml:"effect"`
	Source     string   `yaml:"source_url"`

	// For the readers of the file only.
	Title      string `yaml:"source_title"`
	Confidence string `yaml:"confidence"`
}

// ReadAnomalies reads a list of at most 100 anomalies in YAML, of which JSON is a part: [{id, start_date, end_date, kind, metrics,
// effect, source_url}]. kind is window unless it is step; end_date may be null. Entries whose search_types leave out web are
// dropped. An unknown field, a duplicate id or an impossible value is an error that names the entry.
func ReadAnomalies(r io.Reader) (Anomalies, error) {
	var entries []anomalyEntry
	decoder := yaml.NewDecoder(r)
	decoder.KnownFields(true)
	if err := decoder.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the anomalies: %w", anomalyError(err))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("read the anomalies: the file has more than one YAML document")
	}
	if len(entries) > maxAnomalies {
		return nil, fmt.Errorf("read the anomalies: there are %d: at most %d are allowed", len(entries), maxAnomalies)
	}
	seen := make(map[string]bool, len(entries))
	list := make(Anomalies, 0, len(entries))
	for i, entry := range entries {
		a, err := entry.anomaly()
		if err == nil && seen[a.ID] {
			err = fmt.Errorf("id %q is given twice", a.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("anomaly %d: %w", i+1, err)
		}
		seen[a.ID] = true
		if len(entry.SearchType) == 0 || slices.Contains(entry.SearchType, "web") {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b Anomaly) int { return int(a.Start) - int(b.Start) })
	return list, nil
}

// anomalyError replaces the names of Go types in the decoder's error with the fields that an anomaly has.
func anomalyError(err error) error {
	typeError, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	problems := make([]string, len(typeError.Errors))
	for i, e := range typeError.Errors {
		e, _, _ = strings.Cut(e, " in type ")
		problems[i], _, _ = strings.Cut(e, " into ")
	}
	return errors.New(strings.Join(problems, "; ") + "; the file is a list of id, start_date, end_date, kind, metrics, effect and source_url")
}

func (e *anomalyEntry) anomaly() (a Anomaly, err error) {
	a = Anomaly{ID: e.ID, Step: e.Kind == AnomalyStep, Metrics: e.Metrics, Effect: e.Effect, Source: e.Source}
	if a.Start, err = ParseDate(e.Start); err != nil {
		return a, fmt.Errorf("start_date: %w", err)
	}
	if e.End != "" {
		end, err := ParseDate(e.End)
		if err != nil {
			return a, fmt.Errorf("end_date: %w", err)
		}
		a.End = &end
	}
	a.setNote()
	source, parseErr := url.Parse(e.Source)
	odd := slices.IndexFunc(e.Metrics, func(m string) bool { return !slices.Contains(AnomalyMetrics(), m) })
	switch {
	case len(e.ID) == 0 || len(e.ID) > maxAnomalyID || strings.Trim(e.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		err = fmt.Errorf("id %.100q is not 1 to %d lower-case letters, digits and hyphens", e.ID, maxAnomalyID)
	case a.End != nil && *a.End < a.Start:
		err = fmt.Errorf("end_date %s is before start_date %s", *a.End, a.Start)
	case e.Kind != "" && e.Kind != AnomalyWindow && e.Kind != AnomalyStep:
		err = fmt.Errorf("kind %.40q is neither window nor step", e.Kind)
	case len(e.Metrics) == 0:
		err = fmt.Errorf("metrics is empty: name some of %s", strings.Join(AnomalyMetrics(), ", "))
	case odd >= 0:
		err = fmt.Errorf("metric %.40q is not one of %s", e.Metrics[odd], strings.Join(AnomalyMetrics(), ", "))
	case e.Effect == "" || utf8.RuneCountInString(e.Effect) > maxAnomalyEffect:
		err = fmt.Errorf("effect has %d characters: 1 to %d are allowed", utf8.RuneCountInString(e.Effect), maxAnomalyEffect)
	case parseErr != nil || source.Host == "" || source.Scheme != "https" && source.Scheme != "http":
		err = fmt.Errorf("source_url %.100q is not an http or https URL", e.Source)
	}
	return a, err
}

// Kind returns AnomalyWindow or AnomalyStep.
func (a *Anomaly) Kind() string {
	if a.Step {
		return AnomalyStep
	}
	return AnomalyWindow
}

// Within returns the anomalies of which a day lies between from and to, both included; nil is no bound. An anomaly without a
// last day lasts.
func (list Anomalies) Within(from, to *Date) Anomalies {
	var within Anomalies
	for _, a := range list {
		if (from == nil || a.End == nil || *a.End >= *from) && (to == nil || a.Start <= *to) {
			within = append(within, a)
		}
	}
	return within
}

// Notes returns a note for each anomaly that concerns the figures of a request and of the period before, whether the answer has that
// or not: a window of which they have a day, and a step that they have days on both sides of.
func (list Anomalies) Notes(p *Params) []string {
	previous := p.Previous()
	var notes []string
	for i := range list {
		if a := &list[i]; a.concerns(previous, p.Period.DateRange) {
			notes = append(notes, a.note)
		}
	}
	return notes
}

// concerns reports whether the anomaly affects figures of one of two periods. A step with a last day came on an unknown one of its days.
func (a *Anomaly) concerns(previous, period DateRange) bool {
	switch {
	case a.Step && a.End == nil:
		return previous.Start < a.Start && a.Start <= period.End
	case a.Step:
		return previous.Start < *a.End && a.Start <= period.End
	}
	return a.touches(previous) || a.touches(period)
}

// touches reports whether a window has a day of a range.
func (a *Anomaly) touches(r DateRange) bool {
	return a.Start <= r.End && (a.End == nil || r.Start <= *a.End)
}

func (a *Anomaly) setNote() {
	when := "since " + a.Start.String()
	if a.End != nil {
		when = a.Start.String() + " to " + a.End.String()
	}
	a.note = a.ID + ": " + a.Effect + " (" + when + ")"
}
