package command

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"sara/cmd/sara/internal/console"
)

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

func (c *versionCommand) Run(con *console.Console, build versionRecord) error {
	return console.One(c.Output, con.Stdout, build)
}

// build returns the linker's version, revision and date, and else those that the Go toolchain recorded.
func (p Program) build() versionRecord {
	build, _ := debug.ReadBuildInfo() // nil if it was built without modules
	return p.describe(build)
}

func (p Program) describe(build *debug.BuildInfo) versionRecord {
	if build == nil {
		build = new(debug.BuildInfo)
	}
	recorded := make(map[string]string)
	for _, setting := range build.Settings {
		recorded[setting.Key] = setting.Value
	}
	return versionRecord{Version: cmp.Or(p.Version, build.Main.Version, "(unknown)"), Revision: cmp.Or(p.Revision, recorded["vcs.revision"]),
		Date: cmp.Or(p.Committed, recorded["vcs.time"]), Go: runtime.Version()}
}
