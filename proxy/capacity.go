package proxy

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/connections"
	"sara/proxy/cpubound"
	"sara/proxy/fillbudget"
)

// Capacity is how much of the machine a server may use. It decides how much its requests may hold together: each kind of memory has a share
// of the memory limit, but no less than what the kind needs to work at all.
type Capacity struct {
	// MemoryLimit is the memory limit of the process in bytes; 0: there is none, and 1 GiB is assumed.
	MemoryLimit int64

	// OpenFiles is how many files and connections the process may have open; 0: there is no limit.
	OpenFiles int

	// FillBytes bounds the memory of upstream answers in flight; 0: a quarter of the memory limit. FillPatience bounds how long an
	// upstream call may wait for it; 0: 10 s.
	FillBytes    int64
	FillPatience time.Duration

	// Slots bounds how much work on large row sets runs at a time; it should be the gateway's, too. nil: cpubound.New().
	Slots *cpubound.Slots
}

const (
	// assumedMemory is the memory limit of a process that has none.
	assumedMemory = 1 << 30

	// leastFillBytes admits the largest fill and the budget's reserve for small ones.
	leastFillBytes = 40 << 20
	// leastSendingBytes admits a few answers of the longest.
	leastSendingBytes = 8 << 20
	// leastPortfolioBytes admits one of two hundred properties.
	leastPortfolioBytes = 1 << 20

	// connectionBytes is the measured memory of one connection: its read and write buffers, its goroutine's stack and its bookkeeping.
	connectionBytes = 60 << 10
	minConnections  = 256
	maxConnections  = 16 << 10
	// mostOtherFiles are left to connections to Redis, databases, stores and the upstream, and to the admin endpoints.
	mostOtherFiles = 256
)

// share returns one of equal parts of the memory limit, or least if that is more.
func (c Capacity) share(parts, least int64) int64 {
	return max(cmp.Or(c.MemoryLimit, assumedMemory)/parts, least)
}

// Fills returns the bytes that the upstream answers in flight may hold together.
func (c Capacity) Fills() int64 { return cmp.Or(c.FillBytes, c.share(4, leastFillBytes)) }

// sendings returns the bytes that the long answers that are being sent may take up.
func (c Capacity) sendings() int64 { return c.share(16, leastSendingBytes) }

// connections returns how many connections may be open: as many as take up an eighth of the memory limit, and leave some open files.
func (c Capacity) connections() int {
	limit := int(min(c.share(8, minConnections*connectionBytes)/connectionBytes, maxConnections))
	if c.OpenFiles > 0 {
		limit = min(limit, max(c.OpenFiles/2, c.OpenFiles-mostOtherFiles))
	}
	return limit
}

// newFills returns the budget of the memory of upstream answers.
func (c Capacity) newFills(registry *prometheus.Registry) (*fillbudget.Budget, error) {
	config := fillbudget.Config{Bytes: c.Fills(), Patience: c.FillPatience, Registry: registry}
	if limit := c.MemoryLimit; limit > 0 {
		config.Pressed = fillbudget.HeapWatermark(limit, fillbudget.LiveHeap)
	}
	return fillbudget.New(config)
}

// portfoliosPerAccount is how many portfolios of an account are made at a time. More would not be made faster: one asks for as many
// fills as an account has.
const portfoliosPerAccount = 2

// newPortfolioBudget returns the budget of the memory of portfolios, an eighth of the memory limit. It is not that of fills: a portfolio
// waits for fills while it holds its own.
func (c Capacity) newPortfolioBudget() (*fillbudget.Budget, error) {
	return fillbudget.New(fillbudget.Config{Bytes: c.share(8, leastPortfolioBytes), PerAccount: portfoliosPerAccount, Patience: c.FillPatience})
}

// newConnections returns the set of open connections.
func (c Capacity) newConnections(behindProxy bool, p Process) *connections.Set {
	return connections.New(connections.Config{Limit: c.connections(), BehindProxy: behindProxy,
		MaxRequest: maxRequest, Now: p.Now, Log: p.Log, Registry: p.Registry})
}
