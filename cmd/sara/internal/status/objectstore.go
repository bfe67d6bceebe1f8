package status

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sara/cmd/sara/internal/backend"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

// ObjectStore shows whether the object store of the archive answers this command. What a replica sees of it is in StoreUse.
type ObjectStore struct {
	Kind      string   `json:"kind"`       // folder or S3
	Address   string   `json:"address"`    // without secrets
	State     string   `json:"state"`      // ok; unreachable; or failing, if it answers with an error
	LatencyMS *float64 `json:"latency_ms"` // of one listing; null if it failed
	Problem   *string  `json:"problem"`
}

const (
	storeOK          = "ok"
	storeUnreachable = "unreachable"
	storeFailing     = "failing"
)

// StoreUse shows how the operations of a replica on the object store went since it started.
type StoreUse struct {
	BreakerOpen bool           `json:"breaker_open"`
	Failed      map[string]int `json:"failed"`         // by operation (get, put, list, delete), those that took too long included
	Refused     int            `json:"refused"`        // by the open circuit breaker
	FailedAt    *string        `json:"last_failed_at"` // null if none failed
}

const (
	storeBreakerMetric    = "sara_object_store_breaker_open"
	storeOperationsMetric = "sara_object_store_operations_total"
	storeFailedAtMetric   = "sara_object_store_failed_timestamp_seconds"
)

// askObjectStore probes the object store of the archive.
func askObjectStore(ctx context.Context, location settings.Bucket) ObjectStore {
	s := ObjectStore{Kind: "S3", Address: location.String(), State: storeOK}
	if location.Folder != "" {
		s.Kind = "folder"
	}
	begun := time.Now()
	err := backend.ProbeArchive(ctx, location)
	switch {
	case err == nil:
		s.LatencyMS = latency(begun)
	case errors.As(err, new(*backend.UnavailableError)):
		s.State = storeUnreachable
	default:
		s.State = storeFailing
	}
	s.Problem = problem(err)
	return s
}

// storeUse returns how the replica uses the object store; nil if that cannot be read.
func (s scraped) storeUse() *StoreUse {
	breaker, operations := s[storeBreakerMetric].GetMetric(), s[storeOperationsMetric].GetMetric()
	if len(breaker) == 0 || len(operations) == 0 {
		return nil
	}
	use := &StoreUse{BreakerOpen: breaker[0].GetGauge().GetValue() > 0, Failed: make(map[string]int)}
	for _, metric := range operations {
		n := int(metric.GetCounter().GetValue())
		switch label(metric, "outcome") {
		case "error", "timeout":
			use.Failed[label(metric, "operation")] += n
		case "refused":
			use.Refused += n
		}
	}
	var last float64
	for _, metric := range s[storeFailedAtMetric].GetMetric() {
		last = max(last, metric.GetGauge().GetValue())
	}
	if last > 0 {
		use.FailedAt = console.OptionalTime(new(time.Unix(int64(last), 0)))
	}
	return use
}

// rows are the rows of the table for people.
func (s ObjectStore) rows() [][]string {
	return [][]string{{s.Kind, s.Address, s.State, milliseconds(s.LatencyMS)}}
}

// storeCells are the cells of a replica in the table of how replicas use the object store.
func (r Replica) storeCells() []string {
	use := r.Store
	if use == nil {
		return []string{r.address(), "-", "-", "-", "-"}
	}
	circuit := "closed"
	if use.BreakerOpen {
		circuit = "open"
	}
	var failed []string
	for _, operation := range slices.Sorted(maps.Keys(use.Failed)) {
		if n := use.Failed[operation]; n > 0 {
			failed = append(failed, fmt.Sprintf("%s: %d", operation, n))
		}
	}
	if failed == nil {
		failed = []string{"none"}
	}
	return []string{r.address(), circuit, strings.Join(failed, ", "), fmt.Sprint(use.Refused), console.Cell(use.FailedAt)}
}
