package proxy

import (
	"context"

	"golang.org/x/sync/errgroup"

	"sara/translate"
)

// serveSummary answers /summary. One series of days has the totals of the period and of the one before it, so that
// comparing costs no second upstream call.
func (s *Server) serveSummary(ctx context.Context, c *call) (reply, error) {
	series, err := s.series(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return c.figures(translate.SummaryAnswer(c.ask, series, c.origin())), nil
}

// serveTimeseries answers /timeseries.
func (s *Server) serveTimeseries(ctx context.Context, c *call) (reply, error) {
	series, err := s.series(ctx, c)
	if err != nil {
		return reply{}, err
	}
	return c.figures(translate.TimeseriesAnswer(c.ask, series, c.origin())), nil
}

// serveBreakdown answers /queries, /pages, /countries and /devices.
func (s *Server) serveBreakdown(ctx context.Context, c *call, by translate.Dimension) (reply, error) {
	conditions, err := s.liveConditions(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if err := s.gate.ChargeLive(ctx, c.grant, c.property.ID, 1); err != nil {
		return reply{}, err
	}
	q := translate.SampleQuery(c.property.Site, by, c.ask.Period.DateRange, conditions, c.ask.Order)
	sample, err := s.sample(ctx, c, q)
	if err != nil {
		return reply{}, err
	}
	return c.figures(translate.BreakdownAnswer(c.ask, by, sample, c.origin())), nil
}

// serveMovers answers /movers/queries and /movers/pages from the widest sample of each period.
func (s *Server) serveMovers(ctx context.Context, c *call, by translate.Dimension) (reply, error) {
	if _, err := s.liveConditions(ctx, c); err != nil {
		return reply{}, err
	}
	if err := s.gate.ChargeLive(ctx, c.grant, c.property.ID, 2); err != nil {
		return reply{}, err
	}
	periods := [2]translate.DateRange{c.ask.Period.DateRange, c.ask.Period.Previous()}
	var samples [2]*translate.Rows
	// One that fails does not cut the other off: both were paid for, and what they show of the connection is worth noting.
	var group errgroup.Group
	for i, period := range periods {
		group.Go(func() (err error) {
			defer catch(&err)
			q := translate.WideQuery(c.property.Site, by, period)
			samples[i], err = s.sample(ctx, c, q)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return reply{}, err
	}
	return c.figures(translate.MoversAnswer(c.ask, by, samples[0], samples[1], c.origin())), nil
}

// origin is what a live answer says of itself.
func (c *call) origin() translate.Origin {
	return translate.Origin{PropertyID: c.property.ID, Source: translate.Live}
}

// figures makes the reply of an answer that no response cache stands behind.
func (c *call) figures(answer translate.Answer) reply {
	return reply{body: answer.Append, cache: bypassed}
}

// series asks for one row a day over all days that the answer needs.
func (s *Server) series(ctx context.Context, c *call) (*translate.Series, error) {
	conditions, err := s.liveConditions(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.gate.ChargeLive(ctx, c.grant, c.property.ID, 1); err != nil {
		return nil, err
	}
	q := translate.SeriesQuery(c.property.Site, c.ask.Span(), conditions)
	body, err := s.askUpstream(ctx, c, q)
	if err != nil {
		return nil, err
	}
	series, err := translate.ReadSeries(body, q.Range)
	if err != nil {
		return nil, s.unreadable(c, err)
	}
	return series, nil
}

func (s *Server) sample(ctx context.Context, c *call, q translate.Query) (*translate.Rows, error) {
	body, err := s.askUpstream(ctx, c, q)
	if err != nil {
		return nil, err
	}
	sample, err := translate.ReadRows(body, q.Dimension)
	if err != nil {
		return nil, s.unreadable(c, err)
	}
	return sample, nil
}

// liveConditions expands the request's filters, after making sure that the upstream can be asked for its days at all.
func (s *Server) liveConditions(ctx context.Context, c *call) ([]translate.Condition, error) {
	var segments translate.Segments
	if translate.NeedsSegments(c.ask.Filters) {
		var err error
		if segments.BrandTerms, err = s.config.Store.BrandTerms(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
		if segments.PageGroups, err = s.config.Store.PageGroups(ctx, c.property.ID); err != nil {
			return nil, asStoreError(err)
		}
	}
	conditions, err := translate.Conditions(c.ask.Filters, segments)
	if err != nil {
		return nil, err
	}
	return conditions, s.checkLive(ctx, c)
}
