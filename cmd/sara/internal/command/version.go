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

func (v versionRecord) Columns() []console.Column {
	return []console.Column{{"VERSION", v.Version}, {"REVISION", v.Revision}, {"DATE", v.Date}, {"GO", v.Go}}
}

// String is what --version prints.
func (v versionRecord) String() string {
	parts := []string{console.ProgramName, v.Version, v.Revision, v.Date, v.Go}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
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
