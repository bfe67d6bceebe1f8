package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// asked is a query as the upstream receives it.
type asked struct {
	StartDate             string            `json:"startDate"`
	EndDate               string            `json:"endDate"`
	Dimensions            []string          `json:"dimensions"`
	RowLimit              int               `json:"rowLimit"`
	DimensionFilterGroups []json.RawMessage `json:"dimensionFilterGroups"`
}

func readQuestion(r *http.Request) (q asked, err error) {
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return q, fmt.Errorf("read the query to %s: %w", r.URL, err)
	}
	return q, nil
}

// A recorder is an upstream without rows that records every query.
type recorder struct {
	mu        sync.Mutex
	questions []asked // guarded by mu
	failure   error   // guarded by mu
}

func (f *recorder) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	q, err := readQuestion(r)
	f.mu.Lock()
	f.questions = append(f.questions, q)
	if err != nil {
		f.failure = err
	}
	f.mu.Unlock()
	mustWrite(rw, `{"responseAggregationType":"byProperty"}`)
}

// take returns the queries since the last take.
func (f *recorder) take() ([]asked, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	questions := f.questions
	f.questions = nil
	return questions, f.failure
}
