package upstream

import (
	"context"
	"log/slog"
	"time"
)

// The notes that customers see about a connection or a property that does not work.
const (
	noteForbidden     = "The connected account has no access to the property in Search Console."
	noteRevoked       = "The connection to Search Console was revoked or has expired: connect the account again."
	noteMisconfigured = "The connection to Search Console does not work: " // and why
)

// recordMemory is how long this process trusts its own record over the health in a Target. A Target may be old: a job lists
// its properties once per run. Without this memory, each of its calls would write the same change again.
const recordMemory = time.Minute

// recordTimeout is how long a record may delay the answer: the store may be locked, or not answer.
const recordTimeout = time.Second

// A recorder writes to the store whether connections and properties work, and logs each transition once. If several
// replicas see a change, the store lets only one of them make it.
type recorder struct {
	store    Connections
	log      *slog.Logger
	now      func() time.Time
	recorded expiringMap[recordKey, bool] // whether it works
}

// recordKey names a connection at a revision of its credentials, or a property.
type recordKey struct {
	kind, id string
	revision int
}

// readable records that the upstream answers for a property, and thus that its connection works.
func (r *recorder) readable(ctx context.Context, t Target) {
	r.connection(ctx, t, "")
	r.property(ctx, t, "")
}

// forbidden records that the account has no access to the property. The token was accepted, so the connection works.
func (r *recorder) forbidden(ctx context.Context, t Target) {
	r.connection(ctx, t, "")
	r.property(ctx, t, noteForbidden)
}

// connectionFailure records a failure that concerns the whole connection; for other failures it records nothing.
func (r *recorder) connectionFailure(ctx context.Context, t Target, failure *Error) {
	switch failure.Kind {
	case Revoked:
		r.connection(ctx, t, noteRevoked, slog.String("detail", failure.detail))
	case Misconfigured:
		r.connection(ctx, t, noteMisconfigured+failure.Message, slog.String("detail", failure.detail))
	}
}

// connection records why a connection does not work, or with an empty note that it does.
func (r *recorder) connection(ctx context.Context, t Target, note string, detail ...slog.Attr) {
	key, healthy := recordKey{"connection", t.ConnectionID, t.Revision}, note == ""
	r.record(ctx, key, t.Healthy, healthy, func(ctx context.Context) error {
		changed, err := r.store.SetConnectionHealth(ctx, t.ConnectionID, t.Revision, note)
		r.logTransition(ctx, changed, err, "health of a connection",
			append(detail, slog.String("connection", t.ConnectionID), slog.Bool("healthy", healthy), slog.String("note", note))...)
		return err
	})
}

// property records the access to a property. The first note stands: a later one does not replace it.
func (r *recorder) property(ctx context.Context, t Target, note string) {
	key := recordKey{kind: "property", id: t.PropertyID}
	r.record(ctx, key, t.AccessNote == "", note == "", func(ctx context.Context) error {
		changed, err := r.store.SetPropertyAccess(ctx, t.PropertyID, note)
		r.logTransition(ctx, changed, err, "access to a property", slog.String("property", t.PropertyID), slog.String("note", note))
		return err
	})
}

// record writes whether something works, unless that is what was last recorded. It is known even if the caller has left.
func (r *recorder) record(ctx context.Context, key recordKey, listed, works bool, write func(context.Context) error) {
	now := r.now()
	last, _, ok := r.recorded.get(key, now)
	if !ok {
		last = listed
	}
	if last == works {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if write(ctx) == nil {
		r.recorded.put(key, works, now.Add(recordMemory), now)
	}
}

// logTransition logs a change, or that it could not be recorded; the call succeeds either way.
func (r *recorder) logTransition(ctx context.Context, changed bool, err error, what string, attributes ...slog.Attr) {
	switch {
	case err != nil:
		attributes = append(attributes, slog.Any("error", err))
		r.log.LogAttrs(ctx, slog.LevelError, "cannot record the "+what, attributes...)
	case changed:
		r.log.LogAttrs(ctx, slog.LevelWarn, "changed: "+what, attributes...)
	}
}
