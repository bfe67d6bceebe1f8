package command

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestLinkerVersionWinsOverRecordedOne(t *testing.T) {
	t.Parallel()
	recorded := &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}, Settings: []debug.BuildSetting{
		{Key: "-trimpath", Value: "true"}, {Key: "vcs.revision", Value: "c0ffee"}, {Key: "vcs.time", Value: "2026-11-01T12:00:00Z"}}}
	check := func(build *debug.BuildInfo, linked Program, want versionRecord) {
		t.Helper()
		want.Go = runtime.Version()
		if got := linked.describe(build); got != want {
			t.Errorf("linked as %+v: %+v, want %+v", linked, got, want)
		}
	}
	v1 := versionRecord{Version: "v1.0.0", Revision: "c0ffee", Date: "2026-11-01T12:00:00Z"}
	v2 := versionRecord{Version: "v2.0.0", Revision: "beef", Date: "2026-11-02T12:00:00Z"}
	check(recorded, Program{}, v1)
	check(recorded, Program{Version: v2.Version, Revision: v2.Revision, Committed: v2.Date}, v2)
	check(recorded, Program{Version: "v2.0.0"}, versionRecord{Version: "v2.0.0", Revision: v1.Revision, Date: v1.Date})
	check(new(debug.BuildInfo), Program{}, versionRecord{Version: "(unknown)"})
	check(nil, Program{Version: "v2.0.0"}, versionRecord{Version: "v2.0.0"})
	check(nil, Program{}, versionRecord{Version: "(unknown)"})
}

// sara --version prints in one line what sara version prints as a table.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--version"}, {"version"}} {
		var out, trouble strings.Builder
		if status := sara(t.Context(), args, nil, nil, &out, &trouble); status != ExitOK ||
			!strings.Contains(out.String(), runtime.Version()) || trouble.Len() > 0 {
			t.Errorf("sara %s exits with %d: %s%s", args, status, &out, &trouble)
		}
	}
	if got := (versionRecord{Version: "v1.0.0", Date: "2026-11-01T12:00:00Z", Go: "go1.26"}).String(); got != "sara v1.0.0 2026-11-01T12:00:00Z go1.26" {
		t.Errorf("it prints %q", got)
	}
}
