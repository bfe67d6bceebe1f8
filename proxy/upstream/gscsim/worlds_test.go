package gscsim_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"sara/proxy/upstream/gscsim"
)

// Servers that share their worlds answer as Servers that do not: with other seeds, other sites of the same address and other
// clocks, and concurrently.
func TestServersWithSharedWorldsAgree(t *testing.T) {
	t.Parallel()
	var requests [][]byte
	for _, dimensions := range []string{``, `"date"`, `"page"`} {
		for _, more := range []string{`"dataState":"all"`, `"rowLimit":5`, `"rowLimit":5,"startRow":3`, `"aggregationType":"byPage"`,
			`"dimensionFilterGroups":[{"filters":[{"dimension":"country","expression":"usa"}]}]`} {
			requests = append(requests, fmt.Appendf(nil, `{"startDate":"2026-07-20","endDate":"2026-08-16","dimensions":[%s],%s}`, dimensions, more))
		}
	}
	var worlds gscsim.Worlds
	var done sync.WaitGroup
	for i := range 12 {
		config := testConfig()
		config.Seed += uint64(i % 2)
		config.Users[0].Sites[0].Queries = 100 + i/2%2
		config.Now = func() time.Time { return noon().AddDate(0, 0, -i/4%3) }
		alone := gscsim.New(config)
		config.Worlds = &worlds
		sharing := gscsim.New(config)
		done.Go(func() {
			want, wantErr := alone.Answers(t.Context(), domainSite, requests...)
			for range 2 {
				got, err := sharing.Answers(t.Context(), domainSite, requests...)
				if wantErr != nil || err != nil || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
					t.Errorf("server %d answers %.300s, %v; alone %.300s, %v", i, got, err, want, wantErr)
				}
			}
		})
	}
	done.Wait()
}
