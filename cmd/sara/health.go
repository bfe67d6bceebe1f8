package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

// healthLimit is how long a server may take to say how it is.
const healthLimit = 2 * time.Second

type healthCommand struct {
	settings.File
	settings.Admin
	URL string `name:"url" placeholder:"URL" help:"The server's admin endpoints, such as http://127.0.0.1:9090; those of --admin-listen on this machine if not set."`
}

func (c *healthCommand) Run(ctx context.Context, con *console.Console) error {
	base, err := adminURL(c.AdminListen, c.URL)
	if err != nil {
		return err
	}
	transport := &http.Transport{} // not through a proxy of the environment
	defer transport.CloseIdleConnections()
	status, err := askStatus(ctx, transport, base)
	if err != nil {
		return err
	}
	if !serves(status.State) {
		return fmt.Errorf("%s is %s: %s", base, status.State, status.Reason)
	}
	_, err = fmt.Fprintln(con.Stdout, strings.TrimSuffix(status.State+": "+status.Reason, ": "))
	return err
}

// adminURL returns the base of the admin endpoints at an address, or else on this machine.
func adminURL(listen settings.HostPort, address string) (string, error) {
	if address == "" {
		return listen.URL(), nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not the URL of admin endpoints, such as http://127.0.0.1:9090", settings.Mask(address))
	}
	return strings.TrimSuffix(address, "/"), nil
}

// serves reports whether a server in that state gets requests.
func serves(state string) bool { return state == proxy.StateReady || state == proxy.StateDegraded }

// askStatus asks the admin endpoints at base how their server is.
func askStatus(ctx context.Context, transport *http.Transport, base string) (proxy.Status, error) {
	var status proxy.Status
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return status, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return status, fmt.Errorf("%s does not answer within %v", base, healthLimit)
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
