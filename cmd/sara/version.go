package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"sara/cmd/sara/internal/console"
)

// The linker sets them (-X main.version=v1.2.3) in releases, and in builds without version control, such as those of images. Nothing
// else writes them.
var version, revision, committed string

type versionCommand struct {
	console.Output
}

type versionRecord struct {
	Version  string `json:"version"`  // of the module, (devel) for a build from a work tree
	Revision string `json:"revision"` // of the source, empty if the build did not record it
	Date     string `json:"date"`     // of the revision (RFC 3339), empty likewise
	Go       string `json:"go"`
}

func (versionRecord) Header() []string { return []string{"VERSION", "REVISION", "DATE", "GO"} }

func (v versionRecord) Cells() []string { return []string{v.Version, v.Revision, v.Date, v.Go} }

// String is what --version prints.
func (v versionRecord) String() string {
	return strings.Join(slices.DeleteFunc(append([]string{console.ProgramName}, v.Cells()...), func(part string) bool { return part == "" }), " ")
}

func (c *versionCommand) Run(con *console.Console) error {
	return console.One(c.Output, con.Stdout, buildVersion())
}

// buildVersion returns the linker's version, revision and date, and else those that the Go toolchain recorded.
func buildVersion() versionRecord {
	build, _ := debug.ReadBuildInfo() // nil if it was built without modules
	return describeBuild(build, versionRecord{Version: version, Revision: revision, Date: committed})
}

func describeBuild(build *debug.BuildInfo, linked versionRecord) versionRecord {
	if build == nil {
		build = new(debug.BuildInfo)
	}
	recorded := make(map[string]string)
	for _, setting := range build.Settings {
		recorded[setting.Key] = setting.Value
	}
	return versionRecord{Version: cmp.Or(linked.Version, build.Main.Version, "(unknown)"), Revision: cmp.Or(linked.Revision, recorded["vcs.revision"]),
		Date: cmp.Or(linked.Date, recorded["vcs.time"]), Go: runtime.Version()}
}
