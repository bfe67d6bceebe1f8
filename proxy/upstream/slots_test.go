package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sara/proxy/cpubound"
	"sara/translate"
)

// Bodies are parsed in CPU slots.
type slottedQuery struct {
	client  *client
	account Account
	slots   *cpubound.Slots
}

func newSlottedQuery(t *testing.T, reply http.HandlerFunc) *slottedQuery {
	t.Helper()
	g, slots := newGoogle(t, reply), cpubound.New()
	config := g.config()
	config.Slots = slots
	return &slottedQuery{startClient(t, config), account(t, authorizedUser()), slots}
}

func (q *slottedQuery) ask(ctx context.Context) error {
	query := translate.Query{Site: site, Dimension: translate.ByPage, RowLimit: translate.WideSample}
	_, err := q.client.query(ctx, q.account, queryCall{site: site, question: query.Body(), most: query.MaxBody(),
		read: readerOf(new(translate.RowsReader), query)}, nil)
	return err
}

// takeAll takes all free slots, and returns how many there were.
func (q *slottedQuery) takeAll() (taken int) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for q.slots.Acquire(ended) == nil {
		taken++
	}
	return taken
}

const (
	emptyRows = `{"rows":[],"responseAggregationType":"byPage"}`
	spaces    = 4 * freeBytes // before the end of a body of an upstream that is fond of white space
)

func TestLargeBodyWaitsForSlot(t *testing.T) {
	t.Parallel()
	q := newSlottedQuery(t, ok(strings.Repeat(" ", spaces)+emptyRows))
	taken := q.takeAll()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := q.ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a slot: %v", err)
	}
	for range taken {
		q.slots.Release()
	}
	if err := q.ask(t.Context()); err != nil {
		t.Errorf("with a slot: %v", err)
	}
	if free := q.takeAll(); free != taken {
		t.Errorf("%d of %d slots are free afterwards", free, taken)
	}
}

func TestSmallBodyTakesNoSlot(t *testing.T) {
	t.Parallel()
	q := newSlottedQuery(t, ok(emptyRows))
	q.takeAll()
	if err := q.ask(t.Context()); err != nil {
		t.Error(err)
	}
}

// The body stops in its middle until all slots are free.
func TestSlowBodyHoldsNoSlot(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	q := newSlottedQuery(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", spaces)) // the client may be gone, on purpose
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, emptyRows)
	})
	all := q.takeAll()
	for range all {
		q.slots.Release()
	}
	answered := make(chan error, 1)
	go func() { answered <- q.ask(t.Context()) }()
	for range all {
		if err := q.slots.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range all {
		q.slots.Release()
	}
	close(goOn)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A bug in the row reader must not end the process. The slot is free afterwards.
func TestPanicOfTheReaderIsAnError(t *testing.T) {
	t.Parallel()
	q := newSlottedQuery(t, ok(strings.Repeat(" ", spaces)+emptyRows))
	query := translate.Query{Site: site, Dimension: translate.ByPage, RowLimit: translate.WideSample}
	_, err := q.client.query(t.Context(), q.account, queryCall{site: site, question: query.Body(), most: query.MaxBody(),
		read: func(body io.Reader) (*translate.Rows, error) {
			_, _ = io.CopyN(io.Discard, body, spaces) // takes a slot
			panic("out of range")
		}}, nil)
	if err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Errorf("got %v", err)
	}
	if q.takeAll() == 0 {
		t.Error("the slot is still taken")
	}
}
