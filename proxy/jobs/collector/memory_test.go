package collector

import (
	"context"
	"sync"

	"sara/archive"
	"sara/translate"
)

// memory is a history that keeps only which days are archived. Unlike the real one, it can be used in a synctest bubble,
// whose goroutines may not share the compressor's pools with others.
type memory struct {
	mu   sync.Mutex
	days map[string]map[translate.Date]bool // by property, whether they are final
}

func newMemory() *memory { return &memory{days: make(map[string]map[translate.Date]bool)} }

var _ History = (*memory)(nil)

func (m *memory) Days(ctx context.Context, property string) (archive.Inventory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var c archive.Coverage
	for day := range m.days[property] {
		if c.Days == 0 {
			c.First, c.Last = day, day
		}
		c.First, c.Last, c.Days = min(c.First, day), max(c.Last, day), c.Days+1
	}
	for day := c.First; c.Days > 0 && day <= c.Last; day++ {
		if final, ok := m.days[property][day]; !ok {
			c.Missing = append(c.Missing, day)
		} else if !final {
			c.Provisional = append(c.Provisional, day)
		}
	}
	inventory := make(archive.Inventory)
	for _, by := range archive.Dimensions() {
		if c.Days > 0 {
			inventory[by] = c
		}
	}
	return inventory, ctx.Err()
}

func (m *memory) Merge(ctx context.Context, property string, days []archive.Day) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.days[property] == nil {
		m.days[property] = make(map[translate.Date]bool)
	}
	for _, d := range days {
		m.days[property][d.Date] = d.Final
	}
	return ctx.Err()
}

func (m *memory) Prune(ctx context.Context, property string, before translate.Date) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for day := range m.days[property] {
		if day < before {
			delete(m.days[property], day)
		}
	}
	return ctx.Err()
}

// count returns how many days of a property are archived.
func (m *memory) count(property string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.days[property])
}
