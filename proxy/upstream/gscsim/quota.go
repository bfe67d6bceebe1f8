package gscsim

import (
	"net/http"
	"sync"
	"time"
)

// quotaMeter counts calls in fixed windows. It has one window for each site and user of the Config, so its size is bounded.
type quotaMeter struct {
	mu      sync.Mutex // guards windows
	windows map[quotaKey]window
}

type quotaKey struct{ kind, name string }

type window struct {
	number int64 // index of the window since 1970
	calls  int
}

// charge counts a call in a window and reports whether it stays within the limit; a negative limit means no limit.
func (m *quotaMeter) charge(key quotaKey, number int64, limit int) bool {
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
	if !s.quota.charge(quotaKey{"search by site", site.URL}, s.minute(), limit) {
		return rateQuota(http.StatusForbidden, "quotaExceeded")
	}
	if !s.quota.charge(quotaKey{"search by user", user.Email}, s.minute(), limit) {
		return rateQuota(http.StatusTooManyRequests, "rateLimitExceeded")
	}
	return nil
}

func (s *Server) chargeInspection(site Site) *apiError {
	limits := s.config.Quotas
	if !s.quota.charge(quotaKey{"inspections by minute", site.URL}, s.minute(), limits.InspectionsPerMinute) {
		return inspectionQuota("minute")
	}
	if !s.quota.charge(quotaKey{"inspections by day", site.URL}, int64(s.clock().today), limits.InspectionsPerDay) {
		return inspectionQuota("day")
	}
	return nil
}
