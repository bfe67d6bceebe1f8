package proxy

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"

	"sara/proxy/connections"
)

// sendings are the long answers that are being sent. A client that reads slowly, or not at all, keeps its answer in memory for up to
// writeTimeout, although the cache may drop it meanwhile. Short answers are not among them: they are copied into the write buffer of the
// connection.
type sendings struct {
	limit int64 // in bytes
	ended prometheus.Counter

	mu    sync.Mutex // guards the following fields
	all   []*sending // the oldest first
	bytes int64      // of their heads, each counted once
}

// A sending is an answer on its way to one client. Others may be sent the same head.
type sending struct {
	of         *sendings
	connection *connections.Conn
	account    string
	head       *byte // where its memory begins
	bytes      int64
}

func newSendings(limit int64, registry *prometheus.Registry) *sendings {
	s := &sendings{limit: limit, ended: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sara_unread_answers_total",
		Help: "Connections closed in the middle of a long answer, because clients that do not read kept too many of them in memory.",
	})}
	registry.MustRegister(s.ended, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sara_sending_bytes", Help: "Bytes of the long answers that are being sent.",
	}, s.size))
	return s
}

func (s *sendings) size() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.bytes)
}

// begin adds an answer, until end. If all take up too much then, the connections with the oldest answers of the account that takes up
// most are closed: an account that does not read gets in the way of no other.
func (s *sendings) begin(c *connections.Conn, account string, head []byte) *sending {
	begun := &sending{of: s, connection: c, account: account, head: unsafe.SliceData(head), bytes: int64(len(head))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has(begun.head) {
		s.bytes += begun.bytes
	}
	s.all = append(s.all, begun)
	for s.bytes > s.limit && len(s.all) > 1 {
		oldest := s.oldestOfLargest()
		s.remove(oldest)
		s.ended.Inc()
		oldest.connection.Abort()
	}
	return begun
}

// end removes the answer, which may have been removed already.
func (one *sending) end() {
	one.of.mu.Lock()
	defer one.of.mu.Unlock()
	one.of.remove(one)
}

// remove is end for a caller that holds the lock.
func (s *sendings) remove(one *sending) {
	i := slices.Index(s.all, one)
	if i < 0 {
		return
	}
	s.all = slices.Delete(s.all, i, i+1)
	if !s.has(one.head) {
		s.bytes -= one.bytes
	}
}

func (s *sendings) has(head *byte) bool {
	return slices.ContainsFunc(s.all, func(other *sending) bool { return other.head == head })
}

// oldestOfLargest returns the oldest answer of the account whose answers take up most. A head counts for the account to which it has been
// sent for longest.
func (s *sendings) oldestOfLargest() *sending {
	heads, accounts, largest := map[*byte]bool{}, map[string]int64{}, ""
	for _, one := range s.all {
		if heads[one.head] {
			continue
		}
		heads[one.head] = true
		if accounts[one.account] += one.bytes; accounts[one.account] > accounts[largest] {
			largest = one.account
		}
	}
	return s.all[slices.IndexFunc(s.all, func(one *sending) bool { return one.account == largest })]
}
