package command

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

// shellWords splits a command line as a shell does, as far as examples need it.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 { // within quotes
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

func TestEveryHelpHasAnExampleThatParses(t *testing.T) {
	t.Parallel()
	options := append(settings.NewLoader(nil, nil).Options(), kong.Name(console.ProgramName))
	for _, leaf := range newParser(&commands{}, options).Model.Leaves(false) {
		line := exampleOf(leaf)
		args := shellWords(line)
		if len(args) == 0 || args[0] != console.ProgramName {
			t.Errorf("sara %s has the example %q", leaf.Path(), line)
			continue
		}
		parsed, err := newParser(grammar(args[1:]), options).Parse(args[1:])
		if err != nil || parsed.Selected().Path() != leaf.Path() {
			t.Errorf("the example of sara %s, %q: %v", leaf.Path(), line, err)
		}
	}
}

func TestHelpShowsTheFlagsOfACommandBeforeTheSettings(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	help := c.OK("archive", "export", "--help")
	rest := help
	for _, part := range []string{"Example:", "sara archive export 'client1-*'", "Flags:", "--from=DATE", "Settings, which the environment",
		"--database-url=URL", "SARA_DATABASE_URL"} {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Fatalf("%q is missing, or too early:\n%s", part, help)
		}
		rest = after
	}
	if demo := c.OK("demo", "--help"); !strings.Contains(demo, "Settings, which the environment can have as well:") || strings.Contains(demo, "--config") {
		t.Errorf("the help of demo, which reads no file of settings, names one:\n%s", demo)
	}
	if version := c.OK("--version"); !strings.HasPrefix(version, "sara ") || strings.Count(version, "\n") != 1 {
		t.Errorf("--version prints %q", version)
	}
}

// TestHelpIsACommandToo: it is what people try first, with and without the name of a command or of a group.
func TestHelpIsACommandToo(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for asked, want := range map[string]string{"help": "--help", "help key": "key --help", "help key create": "key create --help"} {
		if got, want := c.OK(strings.Fields(asked)...), c.OK(strings.Fields(want)...); got != want {
			t.Errorf("sara %s prints\n%s\nand not\n%s", asked, got, want)
		}
	}
	c.Fails(ExitUsage, []string{"help", "frobnicate"}, "unexpected argument frobnicate")
}

// TestCompletion lets the shells that are installed complete a command line.
func TestCompletion(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Fails(ExitUsage, []string{"completion", "tcsh"}, "bash", "zsh", "fish")
	scripts := make(map[string]string)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		scripts[shell] = c.Write("sara."+shell, c.OK("completion", shell))
	}
	complete := func(words ...string) string {
		t.Helper()
		quoted := strings.Join(words, "' '")
		out, err := exec.CommandContext(t.Context(), "bash", "--norc", "-c",
			`source "$1"; COMP_WORDS=('`+quoted+`'); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sara; echo "${COMPREPLY[@]}"`,
			"bash", scripts["bash"]).CombinedOutput()
		if err != nil {
			t.Fatalf("bash: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for line, want := range map[string]string{
		"sara acc": "account", "sara account ": "add plan list remove", "sara account add Acme --pl": "--plan --plans-file",
		"sara archive export shop --format ": "csv jsonl parquet",
		"sara archive export shop --output ": "", "sara completion ": "bash zsh fish", "sara --database-url x property imp": "import",
		"sara frobnicate --he": "--help",
	} {
		got := complete(strings.Split(line, " ")...)
		if line == "sara account " || line == "sara completion " {
			got = strings.TrimSpace(strings.Split(got, "--")[0])
		}
		if got != want {
			t.Errorf("bash completes %q with %q, want %q", line, got, want)
		}
	}
	for _, check := range [][]string{{"zsh", "-n", scripts["zsh"]}, {"fish", "-n", scripts["fish"]}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not installed, so its script is not checked", check[0])
			continue
		}
		if out, err := exec.CommandContext(t.Context(), check[0], check[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", check, err, out)
		}
	}
}
