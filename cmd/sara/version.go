package main

import (
	"runtime"
	"runtime/debug"
)

type versionCommand struct {
	output
}

type versionRecord struct {
	Version  string `json:"version"`  // of the module, (devel) for a build from a work tree
	Revision string `json:"revision"` // of the source, empty when the build did not record it
	Go       string `json:"go"`
}

func (versionRecord) header() []string { return []string{"VERSION", "REVISION", "GO"} }

func (v versionRecord) cells() []string { return []string{v.Version, v.Revision, v.Go} }

func (c *versionCommand) Run(con *console) error { return one(c.output, con.stdout, buildVersion()) }

// buildVersion returns what the build recorded of itself.
func buildVersion() versionRecord {
	version := versionRecord{Version: "(unknown)", Go: runtime.Version()}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	if build.Main.Version != "" {
		version.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			version.Revision = setting.Value
		}
	}
	return version
}
