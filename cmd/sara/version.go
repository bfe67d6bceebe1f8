package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"sara/cmd/sara/internal/console"
)

// The linker sets version and revision (-X main.version=v1.2.3) in builds without version control, such as those of images.
// Nothing else writes them.
var version, revision string

type versionCommand struct {
	console.Output
}

type versionRecord struct {
	Version  string `json:"version"`  // of the module, (devel) for a build from a work tree
	Revision string `json:"revision"` // of the source, empty if the build did not record it
	Go       string `json:"go"`
}

func (versionRecord) Header() []string { return []string{"VERSION", "REVISION", "GO"} }

func (v versionRecord) Cells() []string { return []string{v.Version, v.Revision, v.Go} }

func (c *versionCommand) Run(con *console.Console) error {
	return console.One(c.Output, con.Stdout, buildVersion())
}

// buildVersion returns the linker's version and revision, and else those that the Go toolchain recorded.
func buildVersion() versionRecord {
	build, _ := debug.ReadBuildInfo() // nil if it was built without modules
	return describeBuild(build, version, revision)
}

func describeBuild(build *debug.BuildInfo, version, revision string) versionRecord {
	if build == nil {
		build = new(debug.BuildInfo)
	}
	recorded := ""
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			recorded = setting.Value
		}
	}
	return versionRecord{Version: cmp.Or(version, build.Main.Version, "(unknown)"), Revision: cmp.Or(revision, recorded), Go: runtime.Version()}
}
