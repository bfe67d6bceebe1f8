package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"sara/cmd/sara/internal/console"
)

// version and revision are set by the linker (-X main.version=v1.2.3), for a build from a tree without version control, such as
// that of an image. Nothing else writes them.
var version, revision string

type versionCommand struct {
	console.Output
}

type versionRecord struct {
	Version  string `json:"version"`  // of the module, (devel) for a build from a work tree
	Revision string `json:"revision"` // of the source, empty when the build did not record it
	Go       string `json:"go"`
}

func (versionRecord) Header() []string { return []string{"VERSION", "REVISION", "GO"} }

func (v versionRecord) Cells() []string { return []string{v.Version, v.Revision, v.Go} }

func (c *versionCommand) Run(con *console.Console) error {
	return console.One(c.Output, con.Stdout, buildVersion())
}

// buildVersion returns what the linker was told, and for the rest what the build recorded of itself.
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
