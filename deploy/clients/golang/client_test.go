//go:build generated

package golang

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/runtime/types"

	"sara/deploy/clients/golang/api"
)

// A world is the output of sara demo --json.
type world struct {
	BaseURL    string                                       `json:"base_url"`
	Keys       map[string]string                            `json:"keys"`
	Properties map[string]struct{ ID, Domain, Slug string } `json:"properties"`
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := new(world)
	if err := json.Unmarshal([]byte(os.Getenv("SARA_DEMO_WORLD")), w); err != nil {
		t.Fatalf("SARA_DEMO_WORLD is not the output of sara demo --json: %v", err)
	}
	return w
}

// client returns a client with one of the demo's keys.
func (w *world) client(t *testing.T, key string) *api.ClientWithResponses {
	t.Helper()
	c, err := api.NewClientWithResponses(w.BaseURL, api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// must returns a reply, or ends the test if there is none or it has another type.
func must[T any](reply T, err error) T {
	if err != nil {
		panic(err)
	}
	return reply
}

// answer returns the body of a success.
func answer[T any](t *testing.T, body *T, raw []byte) *T {
	t.Helper()
	if body == nil {
		t.Fatalf("no success: %s", raw)
	}
	return body
}

func TestAccount(t *testing.T) {
	w := newWorld(t)
	r := must(w.client(t, w.Keys["agency"]).GetAccountWithResponse(t.Context()))
	body := answer(t, r.JSON200, r.Body)
	data := body.Data
	if !bool(body.Success) || data.Account.PlanTier != "agency" || data.Key.Id == uuid.Nil || data.Key.WorkspaceScope != nil ||
		!slices.Contains(data.Key.Scopes, api.ScopePerformanceRead) || data.Usage.RequestsToday < 1 ||
		data.Limits.LiveCallsPerMinutePerProperty < 1 {
		t.Errorf("the account is %+v", data)
	}
	headers := r.Headers200
	if headers.XRateLimitLimit != data.Limits.RequestsPerDay || headers.XRateLimitRemaining >= headers.XRateLimitLimit ||
		time.Until(time.Unix(int64(headers.XRateLimitReset), 0)) <= 0 || headers.XRequestId != body.Meta.RequestId {
		t.Errorf("the headers are %+v, with the limits %+v", headers, data.Limits)
	}
	scoped := must(w.client(t, w.Keys["workspace_scoped"]).GetAccountWithResponse(t.Context()))
	if workspace := answer(t, scoped.JSON200, scoped.Body).Data.Key.WorkspaceScope; workspace == nil || workspace.Name == "" {
		t.Errorf("the key of one workspace reaches %+v", workspace)
	}
}

func TestProperties(t *testing.T) {
	w := newWorld(t)
	c, main := w.client(t, w.Keys["agency"]), w.Properties["main"]
	limit, archived := 1, true
	r := must(c.ListPropertiesWithResponse(t.Context(), &api.ListPropertiesParams{Limit: &limit, IncludeArchived: &archived}))
	list := answer(t, r.JSON200, r.Body)
	if len(list.Data.Rows) != 1 || list.Meta.RowCount != 1 || list.Meta.Limit != limit || list.Meta.Total < 2 ||
		list.Data.Rows[0].CreatedAt.IsZero() || list.Data.Rows[0].Slug == "" {
		t.Errorf("the properties are %+v, %+v", list.Data, list.Meta)
	}
	named := must(c.GetPropertyWithResponse(t.Context(), main.Slug))
	one := must(c.GetPropertyWithResponse(t.Context(), main.Domain))
	property := answer(t, one.JSON200, one.Body).Data
	if answer(t, named.JSON200, named.Body).Data.Id != property.Id {
		t.Errorf("the slug %s and the domain %s are not one property", main.Slug, main.Domain)
	}
	if property.Id.String() != main.ID || property.Type != api.PropertyTypeDomain || !property.Connection.Healthy ||
		property.Connection.Note != nil || property.LastArchivedDate == nil || property.DataWindow.LiveWindowMonths != 16 {
		t.Errorf("the property is %+v", property)
	}
}

func TestPerformance(t *testing.T) {
	w := newWorld(t)
	c, id := w.client(t, w.Keys["agency"]), w.Properties["main"].ID
	compare, preset := api.ComparePreviousPeriod, api.DateRangePresetLast7d
	r := must(c.GetSummaryWithResponse(t.Context(), id, &api.GetSummaryParams{Compare: &compare, DateRange: &preset}))
	summary := answer(t, r.JSON200, r.Body)
	if m := summary.Meta; m.Total != nil || m.RowCount != nil || m.Source != api.SourceLive || m.DateRange.Preset != api.AppliedRangePresetLast7d {
		t.Errorf("the summary's meta is %+v", m)
	}
	before := summary.Data.Previous
	if before == nil || !before.EndDate.Equal(summary.Meta.DateRange.StartDate.AddDate(0, 0, -1)) || before.Clicks == summary.Data.Totals.Clicks {
		t.Fatalf("the period before %+v is %+v", summary.Meta.DateRange, before)
	}
	s := must(c.GetTimeseriesWithResponse(t.Context(), id, &api.GetTimeseriesParams{DateRange: &preset}))
	clicks := 0
	for _, day := range answer(t, s.JSON200, s.Body).Data.Rows {
		clicks += day.Clicks
	}
	if clicks == 0 || clicks != summary.Data.Totals.Clicks {
		t.Errorf("the days have %d clicks, the summary %d", clicks, summary.Data.Totals.Clicks)
	}
	start, end := types.Date{Time: before.StartDate.Time}, types.Date{Time: before.EndDate.Time}
	limit, order := 3, api.OrderMinusImpressions
	filters := []api.Filter{{Dimension: api.FilterDimensionBrand, Operator: api.FilterOperatorIs, Value: "non-brand"},
		{Dimension: api.FilterDimensionDevice, Operator: api.FilterOperatorEquals, Value: "mobile"}}
	q := must(c.ListQueriesWithResponse(t.Context(), id, &api.ListQueriesParams{StartDate: &start, EndDate: &end, Filters: &filters,
		Limit: &limit, OrderBy: &order}))
	queries := answer(t, q.JSON200, q.Body)
	rows := queries.Data.Rows
	if len(rows) != limit || *queries.Meta.RowCount != limit || rows[0].Impressions < rows[2].Impressions || rows[0].Position < 1 ||
		queries.Meta.DateRange.Preset != api.AppliedRangePresetCustom || !queries.Meta.HasMore || len(queries.Meta.Notes) == 0 {
		t.Errorf("the filtered queries are %+v, %+v", rows, queries.Meta)
	}
	m := must(c.ListQueryMoversWithResponse(t.Context(), id, &api.ListQueryMoversParams{Limit: &limit}))
	movers := answer(t, m.JSON200, m.Body).Data
	if len(movers.Gainers) == 0 || movers.Gainers[0].ClicksDelta <= 0 || len(movers.Losers) == 0 || movers.Losers[0].ClicksDelta >= 0 {
		t.Errorf("the movers are %+v", movers)
	}
}

func TestIndexing(t *testing.T) {
	w := newWorld(t)
	c, id := w.client(t, w.Keys["agency"]), w.Properties["main"].ID
	trend, days := true, api.TrendDaysN365
	r := must(c.GetIndexingWithResponse(t.Context(), id, &api.GetIndexingParams{IncludeTrend: &trend, Days: &days}))
	index := answer(t, r.JSON200, r.Body)
	data := index.Data
	if data.Status != api.IndexingStatusReady || data.Totals.Indexed == 0 || data.Trend == nil ||
		len(*data.Trend) == 0 || data.DiscoverySource == nil || len(data.Sitemaps) == 0 || index.Meta.Source != api.IndexingMetaSourceStored {
		t.Errorf("the index is %+v", index)
	}
	if n := len(data.Breakdown); n == 0 || !data.Breakdown[0].Bucket.Valid() {
		t.Errorf("the breakdown is %+v", data.Breakdown)
	}
	bucket, limit := api.BucketIndexed, 2
	u := must(c.ListIndexedURLsWithResponse(t.Context(), id, &api.ListIndexedURLsParams{Bucket: &bucket, Limit: &limit}))
	urls := answer(t, u.JSON200, u.Body)
	if len(urls.Data.Rows) != limit || urls.Meta.Total != data.Totals.Indexed || urls.Data.Rows[0].LastInspectedAt.IsZero() ||
		urls.Data.Rows[0].Bucket != api.BucketIndexed {
		t.Errorf("the indexed URLs are %+v, %+v", urls.Data.Rows, urls.Meta)
	}
	f := must(c.GetIndexingWithResponse(t.Context(), w.Properties["fresh"].ID, nil))
	if fresh := answer(t, f.JSON200, f.Body).Data; fresh.Status == api.IndexingStatusReady || fresh.Totals.Indexed != 0 ||
		fresh.DiscoverySource != nil || fresh.Trend != nil || len(f.JSON200.Meta.Notes) == 0 {
		t.Errorf("the index of a property before its first inspection is %+v", fresh)
	}
}

func TestConfiguration(t *testing.T) {
	w := newWorld(t)
	c, id := w.client(t, w.Keys["agency"]), w.Properties["main"].ID
	b := must(c.ListBrandTermsWithResponse(t.Context(), id))
	terms := answer(t, b.JSON200, b.Body)
	if len(terms.Data.Rows) != terms.Meta.RowCount || !slices.ContainsFunc(terms.Data.Rows, func(term api.BrandTerm) bool {
		return term.MatchType == api.BrandTermMatchTypeRegex
	}) {
		t.Errorf("the brand terms are %+v", terms)
	}
	g := must(c.ListPageGroupsWithResponse(t.Context(), id))
	if groups := answer(t, g.JSON200, g.Body).Data.Rows; len(groups) == 0 || len(groups[0].Rules) == 0 || !groups[0].Rules[0].Type.Valid() {
		t.Errorf("the page groups are %+v", groups)
	}
	a := must(c.ListAnnotationsWithResponse(t.Context(), id, &api.ListAnnotationsParams{}))
	if notes := answer(t, a.JSON200, a.Body).Data.Rows; len(notes) < 2 || !notes[0].Date.Before(notes[1].Date.Time) {
		t.Errorf("the annotations are %+v", notes)
	}
}

func TestErrors(t *testing.T) {
	w := newWorld(t)
	c, id := w.client(t, w.Keys["agency"]), w.Properties["main"].ID
	check := func(refusal *api.Error, header, want string, raw []byte) {
		t.Helper()
		if refusal == nil {
			t.Errorf("no typed error %s: %s", want, raw)
		} else if e := refusal.Error; bool(refusal.Success) || string(e.Code) != want || !e.Code.Valid() || e.RequestId != header || e.Message == "" {
			t.Errorf("%+v, want %s of the request %s", refusal, want, header)
		}
	}
	none := 0
	bad := must(c.ListQueriesWithResponse(t.Context(), id, &api.ListQueriesParams{Limit: &none}))
	check(bad.JSON400, bad.HTTPResponse.Header.Get("X-Request-Id"), string(api.ErrorCodeValidationError), bad.Body)
	invalid := must(w.client(t, w.Keys["revoked"]).GetAccountWithResponse(t.Context()))
	check(invalid.JSON401, invalid.Headers401.XRequestId, string(api.ErrorCodeApiKeyRevoked), invalid.Body)
	if invalid.Headers401.WWWAuthenticate != "Bearer" {
		t.Errorf("a 401 has the WWW-Authenticate header %q", invalid.Headers401.WWWAuthenticate)
	}
	narrow := must(w.client(t, w.Keys["config_only"]).GetSummaryWithResponse(t.Context(), id, nil))
	check(narrow.JSON403, narrow.Headers403.XRequestId, string(api.ErrorCodeInsufficientScope), narrow.Body)
	missing := must(c.GetPropertyWithResponse(t.Context(), "unknown.example"))
	check(missing.JSON404, missing.Headers404.XRequestId, string(api.ErrorCodeNotFound), missing.Body)
}
