package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

// readinessTimeout bounds one query of a server's /readyz.
const readinessTimeout = 2 * time.Second

// AdminURL returns the base URL of admin endpoints: the address, or without one the listener's on this machine. It refuses a password,
// which the status would show.
func AdminURL(listen settings.HostPort, address string) (string, error) {
	if address == "" {
		return listen.URL(), nil
	}
	if _, err := settings.ParseURL(address, "http://127.0.0.1:9090"); err != nil {
		return "", err
	}
	return strings.TrimSuffix(address, "/"), nil
}

// Readiness queries /readyz of the admin endpoints at base, for at most two seconds. A server that is not ready is not an error.
func Readiness(ctx context.Context, transport *http.Transport, base string) (proxy.Status, error) {
	var status proxy.Status
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return status, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return status, fmt.Errorf("%s does not answer within %v", base, readinessTimeout)
		}
		return status, fmt.Errorf("%s does not answer: %w", base, err)
	}
	const most = 64 << 10
	err = json.NewDecoder(io.LimitReader(response.Body, most)).Decode(&status)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil || status.State == "" {
		return status, fmt.Errorf("%s is not the admin endpoint of a server: its /readyz answers %s", base, response.Status)
	}
	return status, nil
}
