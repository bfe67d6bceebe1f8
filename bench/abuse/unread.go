package main

import (
	"context"
	"fmt"

	"github.com/valyala/fasthttp"
)

// unread has one account ask for many long answers, each another one, and read none of them.
func unread(ctx context.Context, s *stage) error {
	key := s.Keys[s.silent][0]
	path := s.property(s.silent, 0) + "/pages?limit=1000&order_by=-impressions&" + s.days()
	s.sendAll(ctx, 1, 1, func(int) *fasthttp.Request { return get(path, key) })
	err := s.surge(ctx, surge{size: s.unread, from: manyAddresses, hold: s.hold, send: func(n int) []byte {
		return fmt.Appendf(nil, "GET %s&offset=%d HTTP/1.1\r\nHost: sara.example\r\nAuthorization: Bearer %s\r\n\r\n", path, n, key)
	}})
	if err != nil {
		return err
	}
	metrics, err := s.metrics(ctx, s.replica)
	if err != nil {
		return err
	}
	s.note("%g connections were closed in the middle of an answer", metrics["sara_unread_answers_total"])
	if metrics["sara_unread_answers_total"] == 0 && s.timed {
		s.problem("all answers were kept")
	}
	return nil
}
