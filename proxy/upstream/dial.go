package upstream

import (
	"context"
	"net"
	"net/url"
	"slices"

	"github.com/valyala/fasthttp"

	"sara/proxy/netguard"
)

// guardedDial returns how to connect to a token endpoint: only to public addresses, except for the hosts that the configuration
// names instead of Google's. Those may be private.
func guardedDial(cfg Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	var trusted []string
	for _, configured := range []struct{ url, public string }{{cfg.BaseURL, DefaultBaseURL}, {cfg.TokenURL, DefaultTokenURL}} {
		if u, err := url.Parse(configured.url); err == nil && configured.url != configured.public {
			trusted = append(trusted, fasthttp.AddMissingPort(u.Host, u.Scheme == "https"))
		}
	}
	open, guarded := &net.Dialer{Timeout: dialTimeout}, netguard.NewDialer(netguard.Config{Timeout: dialTimeout})
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(trusted, address) {
			return open.DialContext(ctx, network, address)
		}
		return guarded.DialContext(ctx, network, address)
	}
}
