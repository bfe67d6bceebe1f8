package proxy

import (
	"context"

	"sara/translate"
)

type anomalyRow struct {
	ID        string   `json:"id"`
	StartDate string   `json:"start_date"`
	EndDate   *string  `json:"end_date"`
	Kind      string   `json:"kind"`
	Metrics   []string `json:"metrics"`
	Effect    string   `json:"effect"`
	SourceURL string   `json:"source_url"`
}

type countMeta struct {
	RowCount int `json:"row_count"`
}

// serveAnomalies answers /v1/anomalies.
func serveAnomalies(s *Server, _ context.Context, x *exchange) (reply, error) {
	known := s.reports.config.Anomalies.Within(x.params.From, x.params.To)
	return envelope(rows[anomalyRow]{convertAll(known, rowOfAnomaly)}, countMeta{RowCount: len(known)}), nil
}

func rowOfAnomaly(a translate.Anomaly) anomalyRow {
	row := anomalyRow{ID: a.ID, StartDate: a.Start.String(), Kind: a.Kind(), Metrics: a.Metrics, Effect: a.Effect, SourceURL: a.Source}
	if a.End != nil {
		row.EndDate = optional(a.End.String())
	}
	return row
}
