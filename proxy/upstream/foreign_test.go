package upstream

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// A token endpoint's own text is in the log, but neither in what customers see of a connection nor in what replicas share.
func TestTextsOfTokenEndpointReachOnlyTheLog(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_scope", "server_error"} {
		g := newGated(t, ok(rowsOfDevices))
		g.token = status(400, `{"error":"`+code+`","error_description":"FOREIGN text"}`)
		err := g.query(t, target())
		failure := upstreamError(t, err)
		shared, jsonErr := json.Marshal(failure)
		if jsonErr != nil || strings.Contains(string(shared), "FOREIGN") || strings.Contains(failure.Message, "FOREIGN") {
			t.Errorf("%s: shared as %s, %v", code, shared, jsonErr)
		}
		if !strings.Contains(err.Error(), "FOREIGN text") {
			t.Errorf("%s: the error for the log is %v", code, err)
		}
		recorded := strings.Join(g.store.take(), "\n")
		if strings.Contains(recorded, "FOREIGN") {
			t.Errorf("%s: recorded %s", code, recorded)
		}
		if (recorded != "") != strings.Contains(g.log.String(), "FOREIGN text") {
			t.Errorf("%s: recorded %q, logged %s", code, recorded, g.log)
		}
	}
}

// A token endpoint that answers with a megabyte of nesting costs neither heap nor stack: 271 MiB without a depth limit.
func TestHostileTokenAnswersAreCheap(t *testing.T) {
	hostile := strings.Repeat("[", 1<<20)
	for _, code := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError} {
		g := newGated(t, ok(rowsOfDevices))
		g.token = status(code, hostile)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := g.query(t, target()); kindOf(t, err) != Unavailable {
			t.Errorf("%d: %v", code, err)
		}
		runtime.ReadMemStats(&after)
		// The runtime may free stacks of earlier tests meanwhile, so the second difference can be negative.
		took := int64(after.TotalAlloc-before.TotalAlloc) + int64(after.StackSys) - int64(before.StackSys)
		if took > 8<<20 {
			t.Errorf("%d: the call took %d KiB", code, took>>10)
		} else {
			t.Logf("%d: %d KiB", code, took>>10)
		}
	}
}

func upstreamError(t *testing.T, err error) *Error {
	t.Helper()
	failure, ok := err.(*Error)
	if !ok {
		t.Fatalf("%v is no Error", err)
	}
	return failure
}
