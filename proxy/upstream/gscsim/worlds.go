package gscsim

import (
	"strings"
	"sync"
)

// Worlds keeps what has been computed about sites and never changes: their queries, their pages, the totals of their days, and the
// rows of recent answers. Servers that share one through Config.Worlds compute it once, and answer with the same bytes as Servers that
// do not. The zero value is ready to use; it is safe for concurrent use. It keeps every site, under 200 bytes per day that was
// queried, and 20 MB of answers.
type Worlds struct {
	recent recentAnswers

	mu    sync.Mutex // guards byKey, not the worlds' contents
	byKey map[worldKey]*world
}

// worldKey is everything that determines the data of a site.
type worldKey struct {
	seed                            uint64
	url, brand, firstDay, quietDays string
	queries, pages, oneDayIn        int
}

func (k *Worlds) world(key worldKey) *world {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.byKey[key]
	if w == nil {
		w = newWorld(key)
		if k.byKey == nil {
			k.byKey = map[worldKey]*world{}
		}
		k.byKey[key] = w
	}
	return w
}

func (s *Server) world(site Site) *world {
	key := worldKey{seed: s.config.Seed, url: site.URL, brand: strings.ToLower(site.Brand), queries: site.Queries, pages: site.Pages,
		firstDay: site.FirstDay, quietDays: strings.Join(site.QuietDays, " "), oneDayIn: site.OneDayIn}
	if key.brand == "" {
		key.brand = siteBrand(site.URL)
	}
	if key.queries == 0 {
		key.queries = 1500
	}
	if key.pages == 0 {
		key.pages = 300
	}
	return s.config.Worlds.world(key)
}
