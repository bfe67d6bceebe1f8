package service

import (
	"context"

	"sara/cmd/sara/internal/settings"
	"sara/proxy"
)

// NoteClock warns of a clock that is moved, and shows it as a degradation.
func NoteClock(ctx context.Context, clock settings.Clock, config *proxy.Config) {
	note := clock.ClockOffset.Note()
	if note == "" {
		return
	}
	config.Log.WarnContext(ctx, note)
	config.Health.Degradations = append(config.Health.Degradations, proxy.Degradation{Reason: "clock", Active: func() string { return note }})
}
