package gscsim

import "time"

// day counts civil days from 1970-01-01.
type day int

const dayLayout = "2006-01-02"

func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

func parseDay(text string) (day, bool) {
	t, err := time.Parse(dayLayout, text)
	return dayOf(t), err == nil
}

func (d day) time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

func (d day) String() string { return d.time().Format(dayLayout) }

// monthsBefore returns the same day n months earlier, clamped to the last day of that month.
func (d day) monthsBefore(n int) day {
	t := d.time()
	first := time.Date(t.Year(), t.Month()-time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	last := first.AddDate(0, 1, -1).Day()
	return dayOf(first.AddDate(0, 0, min(t.Day(), last)-1))
}

// hourText returns the key of the hour that starts h hours after Pacific midnight of d.
func (s *Server) hourText(d day, h int) string {
	t := d.time()
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, s.pacific)
	return midnight.Add(time.Duration(h) * time.Hour).Format("2006-01-02T15:04:05-07:00")
}

// hoursOf returns the hours of a Pacific day: 24, or 23 or 25 when the clocks change.
func (s *Server) hoursOf(d day) int {
	t := d.time()
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, s.pacific)
	next := time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, s.pacific)
	return int(next.Sub(midnight) / time.Hour)
}

// clock is a reading of the simulator's clock.
type clock struct {
	today     day // the Pacific day
	hoursDone int // how many hours of today have data
}

// collectionLag is how many hours fresh data lags behind the clock.
const collectionLag = 2

func (s *Server) clock() clock {
	now := s.config.Now().In(s.pacific)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, s.pacific)
	return clock{today: dayOf(now), hoursDone: max(0, int(now.Sub(midnight)/time.Hour)-collectionLag+1)}
}
