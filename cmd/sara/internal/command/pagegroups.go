package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/translate"
)

type pageGroupCommands struct {
	Set  pageGroupsSet  `cmd:"" help:"Replace the page groups of a property." example:"sara page-groups set shop --file groups.json"`
	List pageGroupsList `cmd:"" help:"List the page groups of a property." example:"sara page-groups list shop"`
}

type pageGroupRecord struct {
	ID        string               `json:"id"`
	Name      string               `json:"name"`
	Rules     []translate.PageRule `json:"rules"`
	CreatedAt string               `json:"created_at"`
}

func (g pageGroupRecord) Columns() []console.Column {
	rules := console.Each(g.Rules, func(r translate.PageRule) string { return r.Type + ":" + r.Value })
	return []console.Column{{"NAME", g.Name}, {"RULES", strings.Join(rules, " or ")}, {"CREATED", g.CreatedAt}, {"ID", g.ID}}
}

func recordOfPageGroup(g translate.PageGroup) pageGroupRecord {
	return pageGroupRecord{ID: g.ID, Name: g.Name, Rules: g.Rules, CreatedAt: console.Timestamp(g.CreatedAt)}
}

type pageGroupsSet struct {
	propertyFlags
	File string `required:"" placeholder:"FILE" help:"JSON array of {\"name\", \"rules\": [{\"type\", \"value\"}]}; types are prefix, contains, equals and regex. - reads standard input."`
}

// pageGroupSet is the result of set: the property's id and all its groups.
type pageGroupSet struct {
	ID     string            `json:"id"`
	Groups []pageGroupRecord `json:"groups"`
}

func (c *pageGroupsSet) Run(ctx context.Context, con *console.Console) error {
	groups, err := readPageGroups(ctx, con, c.File)
	if err != nil {
		return err
	}
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		stored, err := store.SetPageGroups(ctx, property.ID, groups)
		if refused, ok := errors.AsType[*sqlstore.InputError](err); ok {
			return fmt.Errorf("%s: %s", c.File, refused.Reason) // about the file, not the command line
		}
		if err != nil {
			return err
		}
		records := console.Each(stored, recordOfPageGroup)
		if c.JSON {
			return console.PrintJSON(con.Stdout, pageGroupSet{property.ID, records})
		}
		return console.Many(c.Output, con.Stdout, records)
	})
}

// readPageGroups reads a file of groups. It rejects unknown fields, which are probably typos.
func readPageGroups(ctx context.Context, con *console.Console, path string) ([]translate.PageGroup, error) {
	text, err := con.ReadFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("read the page groups: %w", err)
	}
	var file []struct {
		Name  string               `json:"name"`
		Rules []translate.PageRule `json:"rules"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&file)
	if _, more := decoder.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("there is text after the array")
	}
	if err == nil && file == nil {
		err = errors.New("it is null")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // which names types of Go
		err = fmt.Errorf("line %d has a JSON %s in the wrong place", 1+bytes.Count(text[:wrong.Offset], []byte("\n")), wrong.Value)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf(`%s is not a JSON array of {"name", "rules": [{"type", "value"}]}: %w`, path, err)
	}
	groups := make([]translate.PageGroup, len(file))
	for i, g := range file {
		groups[i] = translate.PageGroup{Name: g.Name, Rules: g.Rules}
	}
	return groups, nil
}

type pageGroupsList struct{ propertyFlags }

func (c *pageGroupsList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]pageGroupRecord, error) {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return nil, err
		}
		groups, err := store.PageGroups(ctx, property.ID)
		return console.Each(groups, recordOfPageGroup), err
	}, "the property has no page groups yet: set them.", console.CommandLine("page-groups", "set", c.Property, "--file", "groups.json"))
}
