package status

import (
	"context"
	"encoding/json"
	"time"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

const (
	// fewRows is how many accounts, connections and properties sara status counts itself, so that it shows the present. Of more it
	// shows what a replica has counted last: its own cost does not grow with their number.
	fewRows = 1000
	// lookInterval is how long what a replica has counted is valid at least. The database counts all properties, so that a look takes
	// longer the more there are: it is valid for lookShare times as long as it took. So what looks cost a day does not grow with their
	// number. A look that failed is soon repeated.
	lookInterval = time.Minute
	lookShare    = 300
	// lookTimeout bounds a look.
	lookTimeout = 30 * time.Second
)

// counts are the parts of a report that are counted over all accounts, connections and properties. They are stored as JSON, for
// other processes.
type counts struct {
	At  time.Time `json:"at"`
	Due time.Time `json:"due"` // of the next look

	Archive  Archive     `json:"archive"`
	Indexing Indexing    `json:"indexing"`
	Outages  Connections `json:"connections"`
	Budgets  Budgets     `json:"budgets"`

	Lag       int        `json:"archive_lag_days"` // of the archive that is most behind, of those that were ever collected
	Collected *time.Time `json:"archive_collected_at"`
	// These are not in the JSON of the parts.
	Full          int `json:"accounts_full"`
	SealedHealthy int `json:"sealed_healthy"`
	Accounts      int `json:"accounts"`
}

// count looks at everything. What cannot be read is a problem of its part.
func (v view) count(ctx context.Context) (c counts) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c.At = v.now
	archive, overview, err := v.archive(ctx)
	c.Archive, c.Archive.Problem = archive, problem(err)
	if overview.Oldest != nil {
		c.Lag = max(0, int(v.calendar.Anchor(v.now)-*overview.Oldest))
	}
	c.Collected = overview.Newest
	c.Indexing, err = v.indexing(ctx)
	c.Indexing.Problem = problem(err)
	c.Outages = v.outages(ctx)
	c.Budgets = v.budgets(ctx)
	c.Full, c.SealedHealthy, c.Accounts = c.Budgets.full, c.Outages.Sealed.healthy, c.Budgets.accounts
	return c
}

// last returns the last look that was stored; false if there is none that can be read.
func (v view) last(ctx context.Context) (c counts, ok bool) {
	const skew = time.Minute // between the clocks of processes
	if v.store == nil {
		return c, false
	}
	look, ok, err := v.store.StatusLook(ctx)
	if err != nil || !ok || look.At.Sub(v.now) > skew || json.Unmarshal(look.Counts, &c) != nil {
		return counts{}, false
	}
	c.Budgets.full, c.Outages.Sealed.healthy, c.Budgets.accounts = c.Full, c.SealedHealthy, c.Accounts
	return c, true
}

// current returns the counts for a report: the present ones of few rows, and those of the last look of many. A look that is missing,
// incomplete, or so old that the one after it is missing too, is taken here.
func (v view) current(ctx context.Context) counts {
	c, ok := v.last(ctx)
	if ok && c.rows() > fewRows && c.isComplete() && v.now.Before(c.Due.Add(c.Due.Sub(c.At))) {
		return c
	}
	return v.count(ctx)
}

// save stores the counts for other processes.
func (v view) save(ctx context.Context, c counts) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return v.store.SaveStatusLook(ctx, sqlstore.StatusLook{At: c.At, Counts: text})
}

func (c counts) rows() int {
	return c.Accounts + c.Outages.Total + c.Archive.Counts.Properties + c.Archive.Counts.Left
}

// problems are those of the parts.
func (c counts) problems() (texts []string) {
	for _, part := range []*string{c.Archive.Problem, c.Indexing.Problem, c.Outages.Problem, c.Budgets.Problem} {
		if part != nil {
			texts = append(texts, *part)
		}
	}
	return texts
}

func (c counts) isComplete() bool { return len(c.problems()) == 0 }

// fill puts the counts into the report.
func (c counts) fill(r *Report) {
	r.CountedAt = console.Timestamp(c.At)
	r.Archive, r.Indexing, r.Outages, r.Budgets = c.Archive, c.Indexing, c.Outages, c.Budgets
}
