// Command targets prints the table of the targets, with the figures of one run of load and agency:
//
//	go run ./targets [-before FOLDER] FOLDER
//
// FOLDER has the reports that these programs have written with -out. The table is also written to FOLDER/targets.md. With -before, the
// "before" column has the figures of another folder, instead of those of sara's first version.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"

	"sara/bench/internal/program"
	"sara/bench/internal/report"
)

func main() {
	program.Main("targets", func(_ context.Context, args []string) error { return run(args, os.Stdout) })
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("targets", flag.ContinueOnError)
	before := flags.String("before", "", "folder with the reports of an older version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one folder with reports")
	}
	now, err := report.LoadAll(flags.Arg(0))
	if err != nil {
		return err
	}
	targets := now.Targets()
	if *before != "" {
		older, err := report.LoadAll(*before)
		if err != nil {
			return err
		}
		report.Compare(targets, older.Targets())
	}
	text := report.AppendTargets(nil, targets)
	if err := os.WriteFile(filepath.Join(flags.Arg(0), "targets.md"), text, 0o644); err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
