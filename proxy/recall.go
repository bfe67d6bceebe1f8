package proxy

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/maypok86/otter/v2"
	"github.com/valyala/fasthttp"

	"sara/policy"
	"sara/translate"
)

// A meaning is what a request was found to mean: dashboards ask the same again and again. As long as nobody has changed
// anything, the same bytes mean the same, and only what is left of the budgets has to be found out anew.
type meaning struct {
	route    *route
	grant    *policy.Grant // of the request that it was found out for
	window   translate.Window
	params   *translate.Params
	property *policy.Property
	question question
}

// meanings remembers what requests meant that memory had an answer for.
type meanings struct {
	// An interface of an otter.Cache: whatever imports a struct with a field of a generic type compiles the type's methods again.
	known interface {
		GetIfPresent(fingerprint) (*meaning, bool)
		Set(fingerprint, *meaning) (*meaning, bool)
	}
}

// A fingerprint stands for the bytes of a request that say what it means. It does not tell the key.
type fingerprint [sha256.Size]byte

const (
	rememberedMeanings = 10_000 // of a kilobyte each, or a little more
	longestRemembered  = 1 << 10
)

func newMeanings() (meanings, error) {
	known, err := otter.New(&otter.Options[fingerprint, *meaning]{MaximumSize: rememberedMeanings})
	if err != nil {
		return meanings{}, fmt.Errorf("make a memory of %d meanings: %w", rememberedMeanings, err)
	}
	return meanings{known}, nil
}

// fingerprintOf returns none of a request that is longer than most, or has no telling whose it is.
func fingerprintOf(wire *fasthttp.RequestCtx, f *fields) (print fingerprint, ok bool) {
	var buffer [longestRemembered]byte // on the stack
	key, uri := f.key(), wire.RequestURI()
	if key == "" || len(key)+1+len(uri) > len(buffer) || !wire.IsGet() {
		return print, false
	}
	text := append(append(buffer[:0], key...), '\n') // which no header holds
	return sha256.Sum256(append(text, uri...)), true
}

// recall returns what the request means, nil if that has to be found out.
func (s *Server) recall(wire *fasthttp.RequestCtx, f *fields) *meaning {
	print, ok := fingerprintOf(wire, f)
	if !ok {
		return nil
	}
	m, ok := s.meanings.known.GetIfPresent(print)
	if !ok || !s.gate.StillValid(m.grant, f.at) || m.window.Anchor != s.calendar.Anchor(f.at) {
		return nil
	}
	return m
}

// remember keeps what a request meant. What filters mean is configured for the property, and not part of what the gate knows
// to have changed.
func (s *Server) remember(c *call, q *question) {
	print, ok := fingerprintOf(c.wire, &c.fields)
	if !ok || translate.UsesSegments(c.params.Filters) {
		return
	}
	m := &meaning{route: c.route, grant: c.grant, window: c.window, params: c.params, property: c.property, question: *q}
	m.question.key = slices.Clip(slices.Clone(q.key))
	s.meanings.known.Set(print, m)
}
