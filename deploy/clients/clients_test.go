package clients

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sara/cmd/sara/saratest"
)

// worldVariable has the output of sara demo --json for the callers: its address, keys and properties.
const worldVariable = "SARA_DEMO_WORLD"

// Stock generators accept the document, their clients compile, and the clients read the API's answers.
func TestClientsOfTheDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara, and generates clients")
	}
	sara := saratest.Binary(t)
	document := filepath.Join(t.TempDir(), "openapi.json")
	text := run(t, "sara does not print the document", ".", nil, sara, "openapi")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	world := startDemo(t, sara)
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		// Unlike go run, go tool ignores GOFLAGS, so it would compile the standard library again.
		run(t, "no Go client can be generated from the document", ".", nil,
			"go", "run", "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen", "-config", "golang/api/generate.yaml", document)
		run(t, "the generated Go client does not compile, or its caller does not fit it", ".", nil,
			"go", "vet", "-tags", "generated", "./golang/...")
		run(t, "the Go client does not read the API's answers", ".", world, "go", "test", "-count=1", "-tags", "generated", "./golang")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		installPackages(t)
		run(t, "no TypeScript client can be generated from the document", "typescript", nil,
			"node_modules/.bin/openapi-typescript", document, "--output", "generated/api.d.ts")
		run(t, "the generated TypeScript client does not compile, or its caller does not fit it", "typescript", nil,
			"node_modules/.bin/tsc")
		run(t, "the TypeScript client does not read the API's answers", "typescript", world, "node", "--test", "generated/client.test.js")
	})
}

// run runs a program and returns its standard output. If the program fails, the test fails with the trouble and all output.
func run(t *testing.T, trouble, dir string, environ []string, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir, command.Env = dir, append(os.Environ(), environ...)
	var output strings.Builder
	command.Stderr = &output
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s.\n%s: %v\n%s%s", trouble, command, err, out, output.String())
	}
	return string(out)
}

// startDemo starts a demo that ends with the test, and returns the environment for the callers.
func startDemo(t *testing.T, sara string) []string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, sara, "demo", "--json", "--listen", "127.0.0.1:0")
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 20 * time.Second
	var output strings.Builder
	command.Stderr = &output
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := command.Wait(); command.ProcessState == nil || command.ProcessState.ExitCode() != 0 {
			t.Errorf("the demo ends with %v\n%s", err, output.String())
		}
	})
	world, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the demo printed no address: %v", err)
	}
	return []string{worldVariable + "=" + world}
}

// installPackages installs the packages of the lock file, from npm's cache where possible.
func installPackages(t *testing.T) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	install := exec.CommandContext(t.Context(), npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0")
	install.Dir = "typescript"
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot download the generator: %v\n%s", err, out)
	}
}
