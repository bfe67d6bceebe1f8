package check

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sara/policy"
)

const scanning = "../secret-scanning/"

// keyPattern returns the published expression, which must be the same in all places.
func keyPattern(t *testing.T) *regexp.Regexp {
	t.Helper()
	quoted := regexp.MustCompile(`(?m)^regex = '''(.*)'''$`).FindStringSubmatch(readFile(t, scanning+"gitleaks.toml"))
	if quoted == nil {
		t.Fatal("gitleaks.toml has no expression")
	}
	for _, file := range []string{scanning + "README.md", scanning + "verify.py", "../../proxy/DECISIONS.md", "../../policy/keyform.go"} {
		if !strings.Contains(readFile(t, file), quoted[1]) {
			t.Errorf("%s has another expression than %s", file, quoted[1])
		}
	}
	return regexp.MustCompile(quoted[1])
}

// newKeys returns keys of several services, and the last one without its checksum, as in the first version.
func newKeys() (keys []string) {
	for i := range 40 {
		key, _ := policy.NewKey([]string{"sara", "a", "acme2searchanalytics"}[i%3])
		keys = append(keys, key)
	}
	return append(keys, keys[len(keys)-1][:len(keys[len(keys)-1])-7])
}

// sampleKey returns the key that the README shows.
func sampleKey(t *testing.T) string {
	t.Helper()
	return regexp.MustCompile(`sara_live_SAMPLE[A-Z2-7]+`).FindString(readFile(t, scanning+"README.md"))
}

func TestPublishedPatternMatchesKeys(t *testing.T) {
	pattern := keyPattern(t)
	for _, key := range append(newKeys(), sampleKey(t)) {
		for _, text := range []string{key, "KEY=" + key + "\n", `{"key":"` + key + `"}`, "Authorization: Bearer " + key,
			"https://a.example/?key=" + key + "&b"} {
			if found := pattern.FindAllString(text, -1); len(found) != 1 || found[0] != key {
				t.Errorf("in %q: %q", text, found)
			}
		}
		for _, text := range []string{key[:40], strings.ToLower(key), key + "A", strings.Replace(key, "_live_", "_test_", 1)} {
			if pattern.MatchString(text) {
				t.Errorf("%q is taken for a key", text)
			}
		}
	}
}

// verify.py accepts every key, and no key with one character changed.
func TestPublishedChecksum(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	var text strings.Builder
	var want []string
	line := func(key string, ok bool) {
		text.WriteString("a " + key + " b\n")
		if ok {
			want = append(want, fmt.Sprintf("/dev/stdin:%d: %s...%s\n", strings.Count(text.String(), "\n"), key[:len(key)-48], key[len(key)-4:]))
		}
	}
	keys := newKeys()
	for i, key := range keys {
		line(key, true)
		if first := i == len(keys)-1; !first { // the last key has no checksum
			at := len(key) - 1 - i%59
			line(key[:at]+string('A'+(key[at]-'A'+1)%2)+key[at+1:], false)
		}
	}
	line(sampleKey(t), true)
	verify := exec.Command(python, scanning+"verify.py")
	verify.Stdin = strings.NewReader(text.String())
	out, err := verify.Output()
	if exit := verify.ProcessState.ExitCode(); exit != 1 || string(out) != strings.Join(want, "") {
		t.Errorf("%v, status %d:\n%s\nwant:\n%s", err, exit, out, strings.Join(want, ""))
	}
	clean := exec.Command(python, scanning+"verify.py", scanning+"gitleaks.toml")
	if out, err := clean.CombinedOutput(); err != nil {
		t.Errorf("a file without a key: %v\n%s", err, out)
	}
}

func TestGitleaksFindsKeys(t *testing.T) {
	gitleaks, err := exec.LookPath("gitleaks")
	if err != nil {
		t.Skip("gitleaks is not installed")
	}
	config, err := filepath.Abs(scanning + "gitleaks.toml")
	if err != nil {
		t.Fatal(err)
	}
	keys := newKeys()
	scan := exec.Command(gitleaks, "stdin", "--no-banner", "--redact", "--verbose", "--config", config)
	scan.Stdin = strings.NewReader(strings.Join(keys, "\n") + "\n" + sampleKey(t) + "\nsara_live_" + strings.Repeat("A", 52) + "\n")
	out, _ := scan.CombinedOutput() // its status only shows that it found any
	if found := strings.Count(string(out), "sara-api-key"); found != len(keys) {
		t.Errorf("gitleaks finds %d of %d keys:\n%s", found, len(keys), out)
	}
	if strings.Contains(string(out), keys[0]) {
		t.Error("gitleaks shows a key")
	}
}
