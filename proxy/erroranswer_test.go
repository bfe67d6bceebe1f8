package proxy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"sara/policy"
)

// An answer that is copied from an earlier one is the answer that would have been written, whatever the time, the route and the client.
func TestRepeatedErrorsAreWhatIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shared(appOrigin), limited(func(p *policy.Plan) { p.RequestsPerMinutePerKey, p.RequestsPerHour = 3, 30 }))
	w.setClock("2026-11-21T23:59:58Z")
	unknown, _ := policy.NewKey("sara")
	answer := func(path string, headers ...string) string {
		ctx := w.request(path, headers...)
		w.server.edge.Handler(ctx)
		id := string(ctx.Response.Header.Peek("X-Request-Id"))
		text := ctx.Response.String()
		if strings.Count(text, id) != 2 || !strings.HasPrefix(id, requestIDPrefix) {
			t.Errorf("the id %q is not once in the header and once in the body: %s", id, text)
		}
		_, afterDate, _ := strings.Cut(text, "Content-Type")
		return strings.ReplaceAll(afterDate, id, "<id>")
	}
	repeated := w.server.errors
	seen := map[string]bool{}
	for _, wait := range []time.Duration{0, 300 * time.Millisecond, time.Second, time.Second, time.Minute, time.Hour} {
		w.advance(wait)
		for range 4 {
			_ = answer("/v1/me") // uses up the minute
		}
		for _, request := range [][]string{
			{"/v1/me"}, {"/v1/properties"}, {w.path("main", "/queries")}, {w.path("main", "/queries"), fasthttp.HeaderOrigin, appOrigin},
			{w.path("main", "/queries"), fasthttp.HeaderOrigin, "https://evil.example"},
			{"/v1/me", "Authorization", "nonsense"}, {"/v1/me", "Authorization", "Bearer " + unknown},
			{w.path("main", "/queries"), "Authorization", "Bearer " + unknown},
		} {
			w.server.errors = newErrorAnswers(w.server.errors.docsURL)
			want := answer(request[0], request[1:]...)
			w.server.errors = repeated
			for range 2 {
				if got := answer(request[0], request[1:]...); got != want {
					t.Errorf("%q is answered\n%s\nwant\n%s", request, got, want)
				}
			}
			seen[want] = true
		}
	}
	if all := fmt.Sprint(seen); len(seen) < 20 || !strings.Contains(all, policy.CodeRateLimited) || !strings.Contains(all, policy.CodeInvalidKey) {
		t.Errorf("%d different answers are no test", len(seen))
	}
}
