package check

import (
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/go-units"
)

// drainLimit is how long sara waits for requests in flight when it stops.
const drainLimit = 30 * time.Second

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// bytesOf parses a size such as 768Mi or 640MiB.
func bytesOf(t *testing.T, text string) int64 {
	t.Helper()
	n, err := units.RAMInBytes(strings.TrimSuffix(text, "B") + "B")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// isPinned reports whether an image has a digest, or a tag that begins with a version.
func isPinned(image string) bool {
	name, digest, _ := strings.Cut(image, "@")
	if digest != "" {
		return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(digest)
	}
	_, tag, _ := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return regexp.MustCompile(`^v?[0-9]+\.[0-9]+`).MatchString(tag) || image == "sara:local" // built here, or replaced by an overlay
}

func TestImagesAreToldApartByTheirPin(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]bool{
		"redis:8.2.1-alpine": true, "registry.example.com:5000/team/sara:v1.0.0": true, "sara:local": true,
		"redis@" + digest: true, "redis:8.2.1@" + digest: true,
		"redis": false, "redis:latest": false, "redis:alpine": false, "redis:8": false, "registry.example.com:5000/sara": false,
		"redis:": false, "redis@sha256:12": false,
	} {
		if got := isPinned(image); got != want {
			t.Errorf("%s is pinned: %v", image, got)
		}
	}
}

// Each image is named in one place, so an update cannot miss one.
func TestImagesAreNamedOnce(t *testing.T) {
	seen := make(map[string]string)
	for _, file := range []string{dockerfile, composeFile, "../kubernetes/base/deployment.yaml", "../kubernetes/base/kustomization.yaml"} {
		text := readFile(t, file)
		for _, image := range regexp.MustCompile(`(?m)^(?:# syntax=|ARG BUILD_IMAGE=| +image: (?:&[a-z-]+ )?)([a-z][^ \n]*:[^ \n]+)`).
			FindAllStringSubmatch(text, -1) {
			if first, again := seen[image[1]]; again || !isPinned(image[1]) {
				t.Errorf("%s: %s is not pinned, or is also in %s", file, image[1], first)
			}
			seen[image[1]] = file
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d images are found: %v", len(seen), seen)
	}
}

// settingNames returns the settings in the help of the server, and of the commands that have their own settings.
func settingNames(t *testing.T, binary string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, command := range [][]string{{"serve", "--help"}, {"key", "create", "--help"}} {
		help, err := sara(t, binary, nil, command...)
		if err != nil {
			t.Fatalf("%v\n%s", err, help)
		}
		for _, name := range settingPattern().FindAllString(help, -1) {
			names[name] = true
		}
	}
	if len(names) < 20 {
		t.Fatalf("too few settings: %v", slices.Sorted(maps.Keys(names)))
	}
	return names
}

func settingPattern() *regexp.Regexp { return regexp.MustCompile(`\bSARA_[A-Z][A-Z_]*[A-Z]\b`) }

// testSettings checks that every setting mentioned in deploy exists.
func testSettings(t *testing.T, binary string) {
	known := settingNames(t, binary)
	known["SARA_BINARY"] = true // for these tests
	mentioned := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		switch filepath.Ext(path) {
		case ".yaml", ".env", ".md", ".conf", ".sh", ".json", "": // the last is the Dockerfile
		default:
			return nil
		}
		for _, name := range settingPattern().FindAllString(readFile(t, path), -1) {
			mentioned++
			if !known[name] {
				t.Errorf("%s: unknown setting %s", path, name)
			}
		}
		return nil
	})
	if err != nil || mentioned < 20 {
		t.Errorf("%d mentioned settings, %v", mentioned, err)
	}
}

// testAccepted runs sara serve --check with a deployment's settings, except for the database and the archive, which are
// local.
func testAccepted(t *testing.T, binary string, environment map[string]string) {
	t.Helper()
	environment = maps.Clone(environment)
	maps.Copy(environment, map[string]string{
		"SARA_SECRET_KEY": "c2FyYSBpcyBub3Qgc2VjcmV0IGluIHRoaXMgdGVzdC4=", "SARA_DATABASE_URL": "sqlite:sara.db", "SARA_ARCHIVE_URL": "archive"})
	var variables []string
	for name, value := range environment {
		variables = append(variables, name+"="+value)
	}
	if out, err := sara(t, binary, variables, "serve", "--check"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
