package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// mcpFolder has the packages that test the MCP endpoint, and what belongs to them.
const mcpFolder = "mcp"

// A node is a Node.js with the packages of mcpFolder.
type node struct{ program string }

// oldestNode is the first major version of Node.js that the conformance tests run on.
const oldestNode = 22

// installNode installs the packages, unless they are installed, and with them a Node.js if that of this machine is too old.
func installNode(t *testing.T) node {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed")
	}
	arguments := []string{"ci", "--prefer-offline", "--no-audit", "--no-fund", "--fetch-retries=0", "--ignore-scripts"}
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		t.Skip("node is not installed")
	}
	n := node{program: "node"}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
	if number, err := strconv.Atoi(major); err == nil && number >= oldestNode {
		arguments = append(arguments, "--omit=optional")
	} else {
		architecture := map[string]string{"amd64": "x64"}[runtime.GOARCH]
		if architecture == "" {
			architecture = runtime.GOARCH
		}
		n.program = filepath.Join(mcpFolder, "node_modules", "node-"+runtime.GOOS+"-"+architecture, "bin", "node")
	}
	if isInstalled(t, n) {
		return n
	}
	install := exec.CommandContext(t.Context(), npm, arguments...)
	install.Dir = mcpFolder
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot download the tests of the Model Context Protocol: %v\n%s", err, out)
	}
	if !isInstalled(t, n) {
		t.Skipf("npm has no Node.js %d for %s on %s, and this machine has %s", oldestNode, runtime.GOOS, runtime.GOARCH, version)
	}
	return n
}

// isInstalled reports whether the packages of the lock file are there. npm keeps a copy of the lock file with them, in which some members
// differ.
func isInstalled(t *testing.T, n node) bool {
	t.Helper()
	if _, err := exec.LookPath(n.program); err != nil {
		return false
	}
	type lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	var want, got lock
	for path, into := range map[string]*lock{"package-lock.json": &want, filepath.Join("node_modules", ".package-lock.json"): &got} {
		text, err := os.ReadFile(filepath.Join(mcpFolder, path))
		if err != nil || json.Unmarshal(text, into) != nil {
			return false
		}
	}
	for name, p := range want.Packages {
		optional := strings.HasPrefix(name, "node_modules/node-")
		if _, there := got.Packages[name]; name != "" && !optional && (!there || got.Packages[name] != p) {
			return false
		}
	}
	return true
}

// run runs a script of the packages, and returns what it prints.
func (n node) run(t *testing.T, environ []string, arguments ...string) (output string, err error) {
	t.Helper()
	program, err := exec.LookPath(n.program)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = filepath.Abs(program); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir, command.Env = mcpFolder, append(os.Environ(), environ...)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	return out.String(), err
}

// withKeys starts a reverse proxy that adds keys in turn: the conformance tests send none, and more messages than one key may send in a
// minute. Its own address becomes the demo's; a foreign Host or Origin passes as it is.
func (d demo) withKeys(t *testing.T, keys ...string) (base string) {
	t.Helper()
	target, err := url.Parse(d.BaseURL)
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		own := fmt.Sprint(r.In.Context().Value(http.LocalAddrContextKey))
		if r.Out.Host = r.In.Host; r.In.Host == own {
			r.Out.Host = target.Host
		}
		if r.In.Header.Get("Origin") == "http://"+own {
			r.Out.Header.Set("Origin", d.BaseURL)
		}
		r.Out.Header.Set("Authorization", "Bearer "+d.Keys[keys[int(sent.Add(1))%len(keys)]])
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}

// The official conformance tests pass, except for the failures that a baseline lists with their reasons. A baseline entry that passes
// is a failure too.
func testMCPConforms(t *testing.T, d demo) {
	n := installNode(t)
	base := d.withKeys(t, "pro", "agency", "pro_second", "workspace_scoped", "performance_only", "config_only")
	for _, suite := range []struct {
		name, tests string
		arguments   []string
	}{
		{"2025-11-25", "conformance-legacy", []string{"--suite", "all"}},
		{"2025-11-25-requirements", "conformance-modern", []string{"--requirements", "2025-11-25"}},
		{"2026-07-28-requirements", "conformance-modern", []string{"--requirements", "2026-07-28"}},
	} {
		t.Run(suite.name, func(t *testing.T) {
			arguments := append([]string{"node_modules/" + suite.tests + "/dist/index.js", "server", "--url", base + "/mcp",
				"--expected-failures", "expected-" + suite.name + ".yaml"}, suite.arguments...)
			if output, err := n.run(t, nil, arguments...); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// The official TypeScript clients call every tool, over HTTP and through sara mcp.
func testMCPWithTypeScript(t *testing.T, d demo) {
	n := installNode(t)
	world, err := json.Marshal(map[string]any{"base_url": d.BaseURL, "keys": d.Keys})
	if err != nil {
		t.Fatal(err)
	}
	if output, err := n.run(t, []string{"SARA_DEMO_WORLD=" + string(world), "SARA_PROGRAM=" + d.program}, "--test", "client.test.js"); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
