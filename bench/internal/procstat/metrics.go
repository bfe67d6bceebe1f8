package procstat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ReadMetrics returns the metrics at a URL, in Prometheus' text format, by name. The series of one name are summed.
func ReadMetrics(ctx context.Context, client *http.Client, url string) (_ map[string]float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return parseMetrics(response.Body)
}

func parseMetrics(text io.Reader) (map[string]float64, error) {
	metrics := make(map[string]float64)
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("parse the metrics: %q: %w", line, err)
		}
		name, _, _ := strings.Cut(line[:at], "{")
		metrics[name] += value
	}
	return metrics, lines.Err()
}
