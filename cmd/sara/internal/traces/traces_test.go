package traces

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/settings"
)

// readTraces reads the settings of traces from the environment of the process.
func readTraces(t *testing.T) settings.Traces {
	t.Helper()
	read, err := settings.ReadTraces(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestRefusingCollectorIsLoggedOnceWithoutSecrets(t *testing.T) {
	const secret = "hunter2"
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "what is "+r.Header.Get("Api-Key")+"?", http.StatusUnauthorized)
	}))
	defer refuse.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refuse.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key="+secret)
	var logged bytes.Buffer
	exporter, err := Open(context.Background(), readTraces(t), "v1", slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, s := exporter.Provider.Tracer("test").Start(context.Background(), "step")
		s.End()
		if err := exporter.Provider.ForceFlush(context.Background()); err != nil {
			t.Error(err)
		}
	}
	exporter.Close(context.Background())
	if text := logged.String(); strings.Count(text, "sending traces failed") != 1 || !strings.Contains(text, "401") || strings.Contains(text, secret) {
		t.Errorf("the log says:\n%s", text)
	}
}

func TestHangingCollectorDoesNotBlockShutdown(t *testing.T) {
	hanging := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hanging }))
	defer hang.Close()
	defer close(hanging)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hang.URL)
	exporter, err := Open(context.Background(), readTraces(t), "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	exporter.timeout = 10 * time.Millisecond
	_, s := exporter.Provider.Tracer("test").Start(context.Background(), "step")
	s.End()
	exporter.Close(context.Background()) // while the collector still hangs
}
