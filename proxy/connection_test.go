package proxy

import (
	"strings"
	"testing"
	"unsafe"

	"sara/policy"
)

// A connection hashes the key of each request, whatever the one before had: proxies send those of many clients over one.
func TestConnectionHashesEachKey(t *testing.T) {
	c, buffer := new(connection), []byte{}
	long := strings.Repeat("A", maxKeptAuthorization)
	for _, field := range []string{"", "Bearer a", "Bearer a", "Bearer ab", "Bearer a", "Bearer b", "Bearer ", "", "Bearer b", "Basic b",
		"Bearer b", "bearer  b", "Bearer " + long[:100], "Bearer " + long[:101], "Bearer " + long,
		"Bearer " + strings.Repeat(" ", maxKeptAuthorization) + "c", "Bearer c"} {
		buffer = append(buffer[:0], field...) // as the HTTP library, which uses its memory again
		if got, want := c.hashKey(unsafe.String(unsafe.SliceData(buffer), len(buffer))), policy.HashKey(field); got != want {
			t.Errorf("the hash of %q is %x, want %x", field, got, want)
		}
	}
	if len(c.authorization) > maxKeptAuthorization {
		t.Errorf("keeps %d bytes", len(c.authorization))
	}
}
