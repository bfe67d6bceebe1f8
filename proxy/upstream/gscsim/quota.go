package gscsim

import (
	"net/http"
	"sync"
	"time"
)

// meter counts calls in fixed windows. There is one window for each site and user of the Config, so it does not grow.
type meter struct {
	mu      sync.Mutex // guards windows
	windows map[meterKey]window
}

type meterKey struct{ kind, name string }

type window struct {
	number int64 // which window of its length since 1970
	calls  int
}

// charge counts a call in the numbered window and tells whether it fits under limit; a negative limit always fits.
func (m *meter) charge(key meterKey, number int64, limit int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.windows[key]
	if w.number != number {
		w = window{number: number}
	}
	w.calls++
	m.windows[key] = w
	return limit < 0 || w.calls <= limit
}

func (s *Server) minute() int64 { return s.config.Now().Unix() / int64(time.Minute/time.Second) }

func (s *Server) chargeSearch(user *User, site Site) *apiError {
	limit := s.config.Quotas.SearchPerMinute
	if !s.quota.charge(meterKey{"search by site", site.URL}, s.minute(), limit) {
		return rateQuota(http.StatusForbidden, "quotaExceeded")
	}
	if !s.quota.charge(meterKey{"search by user", user.Email}, s.minute(), limit) {
		return rateQuota(http.StatusTooManyRequests, "rateLimitExceeded")
	}
	return nil
}

func (s *Server) chargeInspection(site Site) *apiError {
	limits := s.config.Quotas
	if !s.quota.charge(meterKey{"inspections by minute", site.URL}, s.minute(), limits.InspectionsPerMinute) {
		return inspectionQuota("minute")
	}
	if !s.quota.charge(meterKey{"inspections by day", site.URL}, int64(s.extent().today), limits.InspectionsPerDay) {
		return inspectionQuota("day")
	}
	return nil
}
