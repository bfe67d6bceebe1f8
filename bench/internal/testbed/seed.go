package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"sara/bench/trace"
)

// AccountsOf returns the accounts, people and properties that a trace needs.
func AccountsOf(c trace.Config) []Account {
	accounts := make([]Account, c.Accounts)
	for i := range accounts {
		accounts[i].People = c.People
	}
	for i := range c.Properties {
		p := Property{Domain: trace.Domain(i)}
		if c.HasSegments(i) {
			p.BrandTerms, p.PageGroups = []string{trace.BrandTerm(i)}, trace.PageGroups()
		}
		owner := &accounts[c.Account(i)]
		owner.Properties = append(owner.Properties, p)
	}
	return accounts
}

// Command returns a command of sara that has the testbed's settings, and runs in its folder.
func (b *Testbed) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, b.binary, args...)
	command.Env, command.Dir = b.env[:len(b.env):len(b.env)], b.folder
	return command
}

// run runs a command of sara and returns its JSON output.
func (b *Testbed) run(ctx context.Context, args ...string) ([]byte, error) {
	printed, err := b.Command(ctx, append(args, "--json")...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("sara %s: %w", strings.Join(args, " "), err)
	}
	return printed, nil
}

// seed adds an account with its workspace, connection, properties and people.
func (b *Testbed) seed(ctx context.Context, name string, account Account, credentials []byte) error {
	file, err := b.write("credentials-"+name+".json", credentials)
	if err != nil {
		return err
	}
	workspace, connection := "workspace-"+name, "connection-"+name
	commands := [][]string{
		{"account", "add", "account-" + name, "--plan", account.plan()},
		{"workspace", "add", "account-" + name, workspace},
		{"connection", "add", workspace, "--credentials", file, "--name", connection},
		{"property", "import", connection},
	}
	for _, p := range account.Properties {
		if len(p.BrandTerms) > 0 {
			commands = append(commands, append([]string{"brand-terms", "set", p.Domain}, p.BrandTerms...))
		}
		if len(p.PageGroups) > 0 {
			groups, err := b.writePageGroups(p)
			if err != nil {
				return err
			}
			commands = append(commands, []string{"page-groups", "set", p.Domain, "--file", groups})
		}
	}
	for _, command := range commands {
		if _, err := b.run(ctx, command...); err != nil {
			return err
		}
	}
	return b.seedPeople(ctx, name, workspace, account.People)
}

func (b *Testbed) writePageGroups(p Property) (path string, err error) {
	type rule struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	type group struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	var groups []group
	for _, name := range p.PageGroups {
		groups = append(groups, group{name, []rule{{"prefix", "/" + strings.ToLower(name) + "/"}}})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return "", err
	}
	return b.write("page-groups-"+p.Domain+".json", text)
}

func (b *Testbed) seedPeople(ctx context.Context, account, workspace string, people int) error {
	var keys []string
	for i := range people {
		email := fmt.Sprintf("person-%d@account-%s.example", i, account)
		if _, err := b.run(ctx, "person", "add", "account-"+account, email, "--workspace", workspace); err != nil {
			return err
		}
		printed, err := b.run(ctx, "key", "create", email, "--name", "bench")
		if err != nil {
			return err
		}
		var created struct{ Key string }
		if err := json.Unmarshal(printed, &created); err != nil || created.Key == "" {
			return fmt.Errorf("sara key create printed no key: %w", cmp.Or(err, errors.New("key is empty")))
		}
		keys = append(keys, created.Key)
	}
	b.Keys = append(b.Keys, keys)
	return nil
}

// Archive imports a history of a property into the archive, as CSV for sara archive import.
func (b *Testbed) Archive(ctx context.Context, domain string, history []byte) error {
	file, err := b.write("history-"+domain+".csv", history)
	if err != nil {
		return err
	}
	_, err = b.run(ctx, "archive", "import", domain, file)
	return err
}
