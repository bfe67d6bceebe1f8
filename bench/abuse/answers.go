package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

// A tally counts the answers that a client got. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	counts   map[string]int // by status and code, or by what happened to the connection
	problems map[string]int // refusals in the wrong form, by an example
}

func newTally() *tally { return &tally{counts: map[string]int{}, problems: map[string]int{}} }

// add counts an event that is not an answer.
func (t *tally) add(event string, n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[event] += n
}

// answer counts an answer, and checks the form of a refusal.
func (t *tally) answer(response *fasthttp.Response) {
	name, problem := classify(response.StatusCode(), string(response.Header.Peek(fasthttp.HeaderRetryAfter)), response.Body())
	if cache := response.Header.Peek("X-Cache"); response.StatusCode() == fasthttp.StatusOK && len(cache) > 0 {
		name += " " + string(cache)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[name]++
	if problem != "" {
		t.problems[problem]++
	}
}

// classify names an answer, and describes what is wrong with it: an error that is not in sara's envelope, or one that does not
// say when to retry although that would help.
func classify(status int, retryAfter string, body []byte) (name, problem string) {
	name = strconv.Itoa(status)
	if status < fasthttp.StatusBadRequest {
		return name, ""
	}
	var envelope struct {
		Success *bool `json:"success"`
		Error   struct {
			Code      string `json:"code"`
			Message   string `json:"message"`
			RequestID string `json:"request_id"`
		} `json:"error"`
	}
	err := json.Unmarshal(body, &envelope)
	if err != nil || envelope.Success == nil || *envelope.Success || envelope.Error.Code == "" || envelope.Error.Message == "" {
		const shown = 60
		return name, fmt.Sprintf("a %d is not in the envelope: %.*q", status, shown, body)
	}
	name += " " + envelope.Error.Code
	if status == fasthttp.StatusTooManyRequests || status == fasthttp.StatusServiceUnavailable {
		if seconds, err := strconv.Atoi(retryAfter); err != nil || seconds < 1 {
			return name, fmt.Sprintf("a %s has Retry-After %q", name, retryAfter)
		}
	}
	return name, ""
}

// count returns how many answers have a name that begins with prefix, such as 429.
func (t *tally) count(prefix string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, times := range t.counts {
		if strings.HasPrefix(name, prefix) {
			n += times
		}
	}
	return n
}

// String lists the counts for a table.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%s × %d", name, t.counts[name]))
	}
	return strings.Join(parts, ", ")
}

// wrong lists the refusals in the wrong form.
func (t *tally) wrong() (problems []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, problem := range slices.Sorted(maps.Keys(t.problems)) {
		problems = append(problems, fmt.Sprintf("%s (× %d)", problem, t.problems[problem]))
	}
	return problems
}
