package inspector

import (
	"context"
	"errors"
	"testing"

	"sara/archive/sqlstore"
	"sara/proxy/upstream"
)

// Without Current, a run would not notice that a property was removed meanwhile.
func TestCurrentIsRequired(t *testing.T) {
	w := newUpstream(t, nil)
	_, err := New(Config{Store: w.store, Gateway: w, Sitemaps: w, Quota: w, Leases: w.store, Holder: "test", History: fakeHistory{w}})
	if err == nil {
		t.Error("an inspector takes properties as they were when its run began")
	}
}

// A run may take hours, in which properties are removed, archived, and read through repaired or other connections.
func TestPropertiesAreInspectedAsTheyAreWhenTheirTurnComes(t *testing.T) {
	w := newUpstream(t, nil, "shop", "removed", "archived", "moved", "repaired")
	for name := range w.ids {
		w.serve("https://"+name+".example/sitemap.xml", urls(name, 1)...)
	}
	begun := false
	w.during = func(ctx context.Context, url string) { // of the first property
		if begun {
			return
		}
		begun = true
		value(w.store.Remove(ctx, sqlstore.KindProperty, w.ids["removed"]))(t)
		value(w.store.SetArchived(ctx, w.ids["archived"], true))(t)
	}
	w.change = func(p *Property) {
		switch {
		case begun && p.PropertyID == w.ids["moved"]:
			p.ConnectionID = "another"
		case begun && p.PropertyID == w.ids["repaired"]:
			p.Revision++
		}
	}
	w.lists = func(target upstream.Target) error {
		if target.PropertyID != w.ids["shop"] && target.ConnectionID == "google" && target.Revision == 0 {
			return fail(upstream.Revoked)
		}
		return nil
	}
	in := w.inspector(func(c *Config) { c.Parallel = 1 })
	results := value(in.Inspect(t.Context(), w.properties("shop", "removed", "archived", "moved", "repaired"), Options{}))(t)
	for i, want := range []error{nil, ErrRemoved, ErrNotInspected, nil, nil} {
		if r := results[i]; !errors.Is(r.Err, want) || (r.Inspected == 1) != (want == nil) {
			t.Errorf("%s: %+v", r.Property.Site, r)
		}
	}
	equal(t, "calls", len(w.inspectedURLs()), 3)
}

// A property that is removed while it is inspected has not failed.
func TestPropertyThatIsRemovedDuringItsInspectionIsReportedAsRemoved(t *testing.T) {
	w := newUpstream(t, nil, "shop")
	w.serve(shopMap, urls("shop", 3)...)
	w.during = func(ctx context.Context, _ string) {
		value(w.store.Remove(ctx, sqlstore.KindProperty, w.ids["shop"]))(t)
		w.during = nil
	}
	if r := w.inspect("shop", Options{}); !errors.Is(r.Err, ErrRemoved) {
		t.Errorf("%+v", r)
	}
}
