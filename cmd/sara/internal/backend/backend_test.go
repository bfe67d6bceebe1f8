package backend

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"sara/cmd/sara/internal/settings"
	"sara/policy/keyring"
	"sara/policy/redistest"
	"sara/proxy/cache"
	"sara/proxy/upstream"
	"sara/translate"
)

// The errors of the gateway's steps with Redis are counted where the response cache counts its own.
func TestGatewayCountsRedisErrors(t *testing.T) {
	server := redistest.Single(t)
	registry := prometheus.NewRegistry()
	keys, err := keyring.New(make([]byte, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := OpenGateway(settings.Upstream{}, upstream.Config{Connections: noConnections{}, Redis: server.Client(),
		Keyring: keys, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Close()
	responses, err := cache.New(cache.Config{Bytes: 1 << 20, Errors: noErrors{}, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	defer responses.Close()
	server.Kill()
	target, day := upstream.Target{Site: "sc-domain:example.com"}, translate.NewDate(2026, 11, 1)
	_, err = gateway.Query(t.Context(), target, translate.DayQuery(target.Site, translate.ByDevice, day, 10))
	if !errors.Is(err, errNoConnection) {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "sara_cache_redis_errors_total" {
			if n := family.GetMetric()[0].GetCounter().GetValue(); n != 1 {
				t.Errorf("%v errors are counted, want 1", n)
			}
			return
		}
	}
	t.Error("the errors of Redis are not exported")
}

type noErrors struct{ cache.ErrorCodec }

type noConnections struct{ upstream.Connections }

var errNoConnection = errors.New("there is no connection")

func (noConnections) Credentials(context.Context, string) ([]byte, error) {
	return nil, errNoConnection
}
