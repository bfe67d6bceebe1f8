package main

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// failing asks cold questions about properties for which the upstream answers 500, many concurrently and in several rounds.
func failing(ctx context.Context, s *stage) error {
	keys := s.Keys[s.failing]
	const rounds = 4
	for range rounds {
		atOnce := len(keys) * s.failures / rounds
		s.sendAll(ctx, atOnce, atOnce, func(n int) *fasthttp.Request {
			return get(s.cold(s.failing, n%len(s.accounts[s.failing].Properties)), keys[n%len(keys)])
		})
		pause(ctx, min(2*time.Second, s.before))
	}
	return nil
}
