package sqlstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"sara/archive/sqlstore/pgtest"
)

// BenchmarkServing measures the reads of a request for a person with properties in 10 workspaces. SARA_BENCH_PROPERTIES sets the
// number in each, 10 by default: adding 1,000 takes half a minute for each database.
func BenchmarkServing(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchmarkServing(b, "sqlite:"+filepath.Join(b.TempDir(), "sara.db")) })
	b.Run("postgres", func(b *testing.B) { benchmarkServing(b, pgtest.Start(b).NewDatabase(b)) })
}

func benchmarkServing(b *testing.B, url string) {
	f := newFixture(b, url)
	const workspaces = 10
	properties := 10
	if set := os.Getenv("SARA_BENCH_PROPERTIES"); set != "" {
		properties = value(strconv.Atoi(set))(b)
	}
	p, last := seedProperties(f, workspaces, properties)
	key := f.key(p.Email, "key")
	hash := keySpec("", "key").Hash
	b.Run("Key", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if k, err := f.findKey(hash); err != nil || k.ID != key.ID {
				b.Fatal(k, err)
			}
		}
	})
	for kind, reference := range map[string]string{"id": last.ID, "site": last.Site, "host": last.Host} {
		b.Run("FindProperties/"+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found, err := f.FindProperties(f.ctx, p.ID, "", reference); err != nil || len(found) != 1 {
					b.Fatal(found, err)
				}
			}
		})
	}
	b.Run("ReachableProperties", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if page, err := f.ReachableProperties(f.ctx, Reach{PersonID: p.ID}, 50, 0); err != nil || len(page) != 50 {
				b.Fatal(len(page), err)
			}
			if total, err := f.CountReachable(f.ctx, Reach{PersonID: p.ID}); err != nil || total != workspaces*properties {
				b.Fatal(total, err)
			}
		}
	})
}

// seedProperties adds a person with several workspaces of several properties, and returns the last property.
func seedProperties(f *fixture, workspaces, properties int) (p Person, last Property) {
	f.t.Helper()
	f.account("acme", "pro")
	p = f.person("acme", "ann@acme.example")
	for w := range workspaces {
		name := fmt.Sprintf("workspace %d", w)
		f.workspace("acme", name)
		wantNil(f.t, f.JoinWorkspace(f.ctx, p.ID, name))
		c := f.connection(name, name)
		for i := range properties {
			last = f.property(c.ID, fmt.Sprintf("sc-domain:site%d.shop%d.example", i, w))
		}
	}
	return p, last
}
