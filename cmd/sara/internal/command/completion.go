package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the longer help of the command.
func (completionCommand) Help() string {
	return `The script completes commands, flags and the values of flags that have a list of them. To load it in every shell:

    bash: echo 'source <(sara completion bash)' >> ~/.bashrc
    zsh:  sara completion zsh > "${fpath[1]}/_sara"
    fish: sara completion fish > ~/.config/fish/completions/sara.fish`
}

func (c *completionCommand) Run(con *console.Console, loader *settings.Loader) error {
	root := allCommands(loader)
	script := map[string]func([]completed) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[c.Shell]
	_, err := io.WriteString(con.Stdout, script(completions(root, console.ProgramName)))
	return err
}

// completed is what can follow a command.
type completed struct {
	path  string // the command, with the program
	words []completedWord
}

type completedWord struct {
	word, help string
	isFlag     bool
	takesValue bool
	values     []string // that the flag may have; empty: any
}

// completions returns what can follow a command and those below.
func completions(node *kong.Node, path string) []completed {
	at := completed{path: path}
	var below []completed
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		at.words = append(at.words, completedWord{word: child.Name, help: child.Help})
		below = append(below, completions(child, path+" "+child.Name)...)
	}
	var shared []completedWord
	for _, flag := range node.Flags {
		word := completedWord{word: "--" + flag.Name, help: flag.Help, isFlag: true, takesValue: !flag.IsBool() && !flag.IsCounter()}
		if flag.Enum != "" {
			word.values = slices.DeleteFunc(strings.Split(flag.Enum, ","), func(v string) bool { return v == "" })
		}
		switch {
		case flag.Hidden:
		case settings.IsSetting(flag.Value):
			shared = append(shared, word)
		default:
			at.words = append(at.words, word)
		}
	}
	at.words = append(at.words, shared...)
	for _, argument := range node.Positional {
		for value := range strings.SplitSeq(argument.Enum, ",") {
			if value != "" {
				at.words = append(at.words, completedWord{word: value})
			}
		}
	}
	return append([]completed{at}, below...)
}

// patterns returns the paths as the patterns of a case statement.
func patterns(all []completed) string {
	var quoted []string
	for _, at := range all[1:] { // without the program itself
		quoted = append(quoted, `"`+at.path+`"`)
	}
	return strings.Join(quoted, "|")
}

// flagCases writes the case statements of the flags that take a value, for bash and zsh: a list of values, or none, so that the shell
// completes a file.
func flagCases(b *strings.Builder, all []completed, format string) {
	for _, at := range all {
		for _, w := range at.words {
			if w.takesValue {
				fmt.Fprintf(b, format, at.path+" "+w.word, strings.Join(w.values, " "))
			}
		}
	}
}

func bashCompletion(all []completed) string {
	var b strings.Builder
	b.WriteString("# Completion of sara for bash. Load it with: source <(sara completion bash)\n" +
		"_sara() {\n\tlocal at=sara words= i\n\tfor ((i = 1; i < COMP_CWORD; i++)); do\n" +
		"\t\tcase \"$at ${COMP_WORDS[i]}\" in " + patterns(all) + ") at=\"$at ${COMP_WORDS[i]}\" ;; esac\n\tdone\n" +
		"\tCOMPREPLY=()\n\tcase \"$at ${COMP_WORDS[COMP_CWORD-1]}\" in\n")
	flagCases(&b, all, "\t\"%s\") COMPREPLY=($(compgen -W \"%s\" -- \"${COMP_WORDS[COMP_CWORD]}\")); return ;;\n")
	b.WriteString("\tesac\n\tcase \"$at\" in\n")
	for _, at := range all {
		var words []string
		for _, w := range at.words {
			words = append(words, w.word)
		}
		fmt.Fprintf(&b, "\t\"%s\") words=\"%s\" ;;\n", at.path, strings.Join(words, " "))
	}
	b.WriteString("\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _sara sara\n")
	return b.String()
}

func zshCompletion(all []completed) string {
	var b strings.Builder
	b.WriteString("#compdef sara\n# Completion of sara for zsh. Write it to a file _sara in a folder of $fpath.\n" +
		"_sara() {\n\tlocal at=sara i\n\tlocal -a choices\n\tfor ((i = 2; i < CURRENT; i++)); do\n" +
		"\t\tcase \"$at ${words[i]}\" in " + patterns(all) + ") at=\"$at ${words[i]}\" ;; esac\n\tdone\n\tcase \"$at ${words[CURRENT-1]}\" in\n")
	flagCases(&b, all, "\t\"%s\") choices=(%s); _describe value choices || _files; return ;;\n")
	b.WriteString("\tesac\n\tcase \"$at\" in\n")
	for _, at := range all {
		var choices []string
		for _, w := range at.words {
			choices = append(choices, console.Quote(strings.ReplaceAll(w.word, ":", `\:`)+":"+w.help))
		}
		fmt.Fprintf(&b, "\t\"%s\") choices=(%s) ;;\n", at.path, strings.Join(choices, " "))
	}
	b.WriteString("\tesac\n\t_describe sara choices || _files\n}\nif [ \"$funcstack[1]\" = _sara ]; then _sara \"$@\"; else compdef _sara sara; fi\n")
	return b.String()
}

func fishCompletion(all []completed) string {
	var b strings.Builder
	b.WriteString("# Completion of sara for fish. Write it to ~/.config/fish/completions/sara.fish\n" +
		"function __sara_at\n\tset -l at sara\n\tfor word in (commandline -opc)[2..]\n\t\tswitch \"$at $word\"\n\t\tcase " +
		strings.ReplaceAll(patterns(all), "|", " ") + "\n\t\t\tset at \"$at $word\"\n\t\tend\n\tend\n\ttest \"$at\" = \"$argv\"\nend\n")
	for _, at := range all {
		for _, w := range at.words {
			line := "complete -c sara -n " + console.Quote("__sara_at "+at.path)
			switch {
			case !w.isFlag:
				line += " -f -a " + w.word
			case len(w.values) > 0:
				line += " -l " + strings.TrimPrefix(w.word, "--") + " -x -a " + console.Quote(strings.Join(w.values, " "))
			case w.takesValue:
				line += " -l " + strings.TrimPrefix(w.word, "--") + " -r"
			default:
				line += " -l " + strings.TrimPrefix(w.word, "--")
			}
			b.WriteString(line + " -d " + console.Quote(w.help) + "\n")
		}
	}
	return b.String()
}
