package upstream

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

// A token endpoint that resolves to a private address is not connected to, unless the configuration names it.
func TestTokenEndpointIsGuarded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	here := (&url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/token"}).String()
	for _, test := range []struct {
		config Config
		opens  bool
	}{
		{Config{}.withDefaults(), false},
		{Config{TokenURL: "http://127.0.0.2:1/token"}.withDefaults(), false},
		{Config{TokenURL: here}.withDefaults(), true},
		{Config{BaseURL: here}.withDefaults(), true},
	} {
		connection, err := guardedDial(test.config)(t.Context(), "tcp", listener.Addr().String())
		if connection != nil {
			_ = connection.Close()
		}
		if (err == nil) != test.opens || err != nil && !strings.Contains(err.Error(), "prohibited") {
			t.Errorf("with %s and %s: %v", test.config.BaseURL, test.config.TokenURL, err)
		}
	}
}
