package check

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

const dockerfile = "../docker/Dockerfile"

// readDockerfile returns the stages, the arguments before them, and the linter's warnings.
func readDockerfile(t *testing.T, text string) (stages []instructions.Stage, arguments []instructions.ArgCommand, warnings []string, err error) {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, nil, nil, err
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, rule+": "+message)
	}})
	for _, warning := range parsed.Warnings {
		warnings = append(warnings, warning.Short)
	}
	stages, arguments, err = instructions.Parse(parsed.AST, lint)
	return stages, arguments, warnings, err
}

func TestDockerfileIsWellFormed(t *testing.T) {
	stages, arguments, warnings, err := readDockerfile(t, readFile(t, dockerfile))
	if err != nil || len(warnings) > 0 || len(stages) != 2 {
		t.Fatalf("%d stages, %v, %v", len(stages), err, warnings)
	}
	build, final := stages[0], stages[1]
	base := build.BaseName
	for _, argument := range arguments {
		for _, a := range argument.Args {
			base = strings.ReplaceAll(base, "${"+a.Key+"}", a.ValueString())
		}
	}
	if !isPinned(base) || strings.Contains(base, "$") || final.BaseName != "scratch" {
		t.Errorf("built from %s into %s", base, final.BaseName)
	}
	if out, err := exec.Command("go", "list", "-m", "-f", "{{.GoVersion}}", "-C", "../..").Output(); err == nil {
		if want := strings.Join(strings.Split(strings.TrimSpace(string(out)), ".")[:2], "."); !strings.HasPrefix(base, "golang:"+want+".") {
			t.Errorf("built with %s, and go.mod wants Go %s", base, want)
		}
	}
	checkFinalStage(t, final)
}

// checkFinalStage checks what deployments rely on in the image.
func checkFinalStage(t *testing.T, final instructions.Stage) {
	t.Helper()
	var user, workdir string
	var entrypoint, command, health, volumes, ports []string
	for _, c := range final.Commands {
		switch c := c.(type) {
		case *instructions.UserCommand:
			user = c.User
		case *instructions.WorkdirCommand:
			workdir = c.Path
		case *instructions.EntrypointCommand:
			entrypoint = c.CmdLine
		case *instructions.CmdCommand:
			command = c.CmdLine
		case *instructions.HealthCheckCommand:
			health = c.Health.Test
		case *instructions.VolumeCommand:
			volumes = c.Volumes
		case *instructions.ExposeCommand:
			ports = c.Ports
		case *instructions.RunCommand, *instructions.AddCommand:
			t.Errorf("an image without a shell cannot run %v", c)
		}
	}
	if user != "65532:65532" || workdir != "/var/lib/sara" || !slices.Equal(volumes, []string{workdir}) ||
		!slices.Equal(ports, []string{"8080", "9090"}) {
		t.Errorf("user %s in %s, volumes %v, ports %v", user, workdir, volumes, ports)
	}
	if !slices.Equal(entrypoint, []string{"/sara"}) || !slices.Equal(command, []string{"serve"}) ||
		!slices.Equal(health, []string{"CMD", "/sara", "health"}) {
		t.Errorf("it runs %v %v, with the health check %v", entrypoint, command, health)
	}
}

func TestInvalidDockerfilesAreRejected(t *testing.T) {
	text := readFile(t, dockerfile)
	check := func(before, after string) {
		t.Helper()
		_, _, warnings, err := readDockerfile(t, strings.Replace(text, before, after, 1))
		if err == nil && len(warnings) == 0 {
			t.Errorf("%q in place of %q is accepted", after, before)
		}
	}
	check("WORKDIR /src", "WRKDIR /src")
	check("AS build", "as build")
	check("AS build", "AS Build")
	check("--interval=10s", "--intervall=10s")
}

// TestBuildContextHasTheSources checks that .dockerignore lets all sources of the binary pass.
func TestBuildContextHasTheSources(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-json=Dir,Module,EmbedFiles", "./cmd/sara")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Split(readFile(t, "../../.dockerignore"), "\n")
	ours := 0
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			Dir        string
			EmbedFiles []string
			Module     *struct{ Main bool }
		}
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.Module == nil || !p.Module.Main {
			continue
		}
		ours++
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if top, _, _ := strings.Cut(folder, string(os.PathSeparator)); !slices.Contains(allowed, "!"+top) {
			t.Errorf("%s is not in the build context", folder)
		}
		for _, file := range append(p.EmbedFiles, folder) {
			if strings.HasSuffix(file, "_test.go") || slices.Contains(strings.Split(file, "/"), "testdata") {
				t.Errorf("%s of %s is not in the build context", file, folder)
			}
		}
	}
	if ours < 5 {
		t.Errorf("%d packages", ours)
	}
}
