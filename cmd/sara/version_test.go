package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestLinkerVersionWinsOverRecordedOne(t *testing.T) {
	t.Parallel()
	recorded := &debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"},
		Settings: []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "vcs.revision", Value: "c0ffee"}}}
	check := func(build *debug.BuildInfo, version, revision, wantVersion, wantRevision string) {
		t.Helper()
		want := versionRecord{Version: wantVersion, Revision: wantRevision, Go: runtime.Version()}
		if got := describeBuild(build, version, revision); got != want {
			t.Errorf("linked as %q of %q: %+v, want %+v", version, revision, got, want)
		}
	}
	check(recorded, "", "", "v1.0.0", "c0ffee")
	check(recorded, "v2.0.0", "beef", "v2.0.0", "beef")
	check(recorded, "v2.0.0", "", "v2.0.0", "c0ffee")
	check(new(debug.BuildInfo), "", "", "(unknown)", "")
	check(nil, "v2.0.0", "", "v2.0.0", "")
	check(nil, "", "", "(unknown)", "")
}
