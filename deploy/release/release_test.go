package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"sara/cmd/sara/saratest"
)

// A release of the binary that the other tests use has correct archives, image and checksums, and its contents run. The binary for
// the other architecture is this test's own under another name, because compiling a second one would take minutes.
func TestReleaseIsComplete(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs a binary for Linux")
	}
	r, binaries := example(t)
	for p, path := range binaries {
		if err := check(platform{"darwin", p.Arch}, path); err == nil {
			t.Errorf("a binary for %s is taken for one for darwin", p)
		}
	}
	if err := r.pack(binaries); err != nil {
		t.Fatal(err)
	}
	if n := checkSums(t, r.Out); n < len(binaries)+4 {
		t.Errorf("SHA256SUMS has %d files", n)
	}
	own := platform{"linux", runtime.GOARCH}
	packed, err := os.ReadFile(filepath.Join(r.Out, "sara_v1.2.3_"+own.String()+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	wantToRun(t, "the archive", extract(t, text, "sara"))
	checkImage(t, r.Out, own)
}

// example returns a release of two platforms, one of them this machine's.
func example(t *testing.T) (release, map[platform]string) {
	t.Helper()
	folder := t.TempDir()
	certificates := filepath.Join(folder, "certificates")
	own, other := "amd64", "arm64"
	if runtime.GOARCH == other {
		own, other = other, own
	}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(this)
	if err != nil {
		t.Fatal(err)
	}
	renamed := filepath.Join(folder, "renamed")
	program = bytes.ReplaceAll(program, []byte("GOARCH="+own), []byte("GOARCH="+other))
	if err := errors.Join(os.WriteFile(certificates, []byte("PEM"), 0o600), os.WriteFile(renamed, program, 0o700)); err != nil {
		t.Fatal(err)
	}
	r := release{Version: "v1.2.3", Revision: "c0ffee", Date: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), Root: "../..",
		Out: filepath.Join(folder, "dist"), Certificates: certificates, Compression: gzip.BestSpeed}
	if err := os.Mkdir(r.Out, 0o700); err != nil {
		t.Fatal(err)
	}
	return r, map[platform]string{{"linux", own}: saratest.Binary(t), {"linux", other}: renamed}
}

// checkSums checks every line of SHA256SUMS, and returns their number.
func checkSums(t *testing.T, folder string) (lines int) {
	t.Helper()
	list, err := os.Open(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Close() }()
	for line := bufio.NewScanner(list); line.Scan(); lines++ {
		sum, name, _ := strings.Cut(line.Text(), "  ")
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(content)) != sum {
			t.Errorf("%s does not have the sum %s (%v)", name, sum, err)
		}
	}
	return lines
}

// extract returns a file of an archive as an executable program.
func extract(t *testing.T, archive io.Reader, name string) (path string) {
	t.Helper()
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if header.Name != name {
			continue
		}
		content, err := io.ReadAll(files)
		path = filepath.Join(t.TempDir(), name)
		if err = errors.Join(err, os.WriteFile(path, content, header.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

func wantToRun(t *testing.T, what, program string) {
	t.Helper()
	if out, err := exec.Command(program, "--version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "sara ") {
		t.Errorf("the binary of %s prints %s (%v)", what, out, err)
	}
}

func checkImage(t *testing.T, folder string, own platform) {
	t.Helper()
	path, err := layout.FromPath(filepath.Join(folder, "image"))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("the layout has %+v (%v)", top, err)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	list, err := index.IndexManifest()
	if err != nil || len(list.Manifests) != 2 {
		t.Fatalf("the image has %+v (%v)", list, err)
	}
	for _, m := range list.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Architecture != m.Platform.Architecture || config.OS != m.Platform.OS {
			t.Fatalf("the image for %v is %+v (%v)", m.Platform, config, err)
		}
		checkConfig(t, config)
		if m.Platform.Architecture == own.Arch {
			checkLayers(t, image)
		}
	}
}

func checkLayers(t *testing.T, image v1.Image) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatalf("%d layers (%v)", len(layers), err)
	}
	text, err := layers[1].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	wantToRun(t, "the image", extract(t, text, "sara"))
}

// The image is configured like the Dockerfile's.
func checkConfig(t *testing.T, config *v1.ConfigFile) {
	t.Helper()
	text, err := os.ReadFile("../docker/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile := strings.NewReplacer("\\\n", "", "      ", "").Replace(string(text))
	asJSON := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), `","`, `", "`)
	}
	c := config.Config
	for _, line := range []string{"USER " + c.User, "WORKDIR " + c.WorkingDir, "ENTRYPOINT " + asJSON(c.Entrypoint), "CMD " + asJSON(c.Cmd),
		"CMD " + asJSON(c.Healthcheck.Test[1:]), `VOLUME ["` + c.WorkingDir + `"]`, "EXPOSE 8080 9090"} {
		if !strings.Contains(dockerfile, line+"\n") {
			t.Errorf("the Dockerfile has no line with %s", line)
		}
	}
	for _, setting := range c.Env {
		if !strings.Contains(dockerfile, setting) {
			t.Errorf("the Dockerfile does not set %s", setting)
		}
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, args := range [][]string{nil, {"v1.2.3"}, {"1.2.3", "dist"}, {"v1.2", "dist"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("release %s: %v", args, err)
		}
	}
}
