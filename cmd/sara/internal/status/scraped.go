package status

import (
	"context"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	metricsTimeout = 4 * time.Second // of one query of a server's /metrics
	maxMetrics     = 4 << 20         // bytes
)

// scraped are the metrics of a replica by name; nil if they cannot be read.
type scraped map[string]*dto.MetricFamily

// scrape reads /metrics of the admin endpoints at base.
func scrape(ctx context.Context, transport *http.Transport, base string) scraped {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }() // only read
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(response.Body, maxMetrics))
	if err != nil {
		return nil
	}
	return families
}

// label returns the value of a label of a metric, empty if it has none.
func label(metric *dto.Metric, name string) string {
	for _, l := range metric.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
