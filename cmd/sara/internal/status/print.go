package status

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"sara/cmd/sara/internal/console"
)

// shownRows bounds how many problems of each kind the report names, the worst first; it counts the others.
const shownRows = 20

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var text strings.Builder
	errs := []error{
		section(&text, "REPLICAS", nil, []string{"REPLICA", "STATE", "VERSION", "SINCE", "OPEN CIRCUITS", "REASON"},
			console.Each(r.Replicas, Replica.cells)),
		r.printRedis(&text),
		section(&text, "DATABASE", r.Database.Problem, []string{"KIND", "ADDRESS", "LATENCY", "SCHEMA", "NEEDED"}, r.Database.rows()),
		section(&text, "OBJECT STORE of the archive", r.ObjectStore.Problem, []string{"KIND", "ADDRESS", "STATE", "LATENCY"}, r.ObjectStore.rows()),
		section(&text, "OBJECT STORE by replica, since it started", nil, []string{"REPLICA", "CIRCUIT", "FAILED", "REFUSED", "LAST FAILURE"},
			console.Each(r.Replicas, Replica.storeCells)),
		section(&text, "CONNECTIONS", r.Outages.Problem, []string{"NAME", "WORKSPACE", "ACCOUNT", "FAILING SINCE", "NOTE"},
			console.Each(slices.Concat(r.Outages.Unhealthy, r.Outages.Sealed.Connections), Outage.cells)),
	}
	if r.Outages.Problem == nil {
		fmt.Fprintf(&text, "%d of %d connections work.\n", r.Outages.Total-r.Outages.Failing-r.Outages.Sealed.healthy, r.Outages.Total)
	}
	if keys := r.Outages.Sealed.Keys; len(keys) > 0 {
		errs = append(errs, section(&text, "SECRET KEYS", nil, []string{"KEY", "ROLE", "CONNECTIONS"}, console.Each(keys, SecretKey.Cells)))
	}
	errs = append(errs, r.Archive.print(&text), r.Indexing.print(&text), r.Budgets.print(&text))
	if r.CountedAt != r.CheckedAt {
		fmt.Fprintf(&text, "\nConnections, archive, indexing and budgets are as of %s, when a replica counted them.\n", r.CountedAt)
	}
	if r.OK {
		text.WriteString("\nAll is well.\n")
	} else {
		text.WriteString("\nNeeds attention:\n")
		for _, what := range r.Attention {
			text.WriteString("- " + what + "\n")
		}
	}
	_, err := io.WriteString(w, text.String())
	return errors.Join(append(errs, err)...)
}

// section writes a table under its name, and its problem if there is one.
func section(text *strings.Builder, name string, problem *string, header []string, rows [][]string) error {
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	text.WriteString(name + "\n")
	if problem != nil {
		text.WriteString("unknown: " + *problem + "\n")
	}
	if len(rows) == 0 {
		return nil
	}
	notes := groupNotes(header, rows)
	if err := console.PrintTable(text, header, rows); err != nil {
		return err
	}
	for i, note := range notes {
		fmt.Fprintf(text, "%s %s\n", noteMark(i), note)
	}
	return nil
}

// groupNotes replaces each note that several rows have with a mark, so that one cause is printed once, and returns these notes.
func groupNotes(header []string, rows [][]string) (notes []string) {
	last := len(header) - 1
	if header[last] != "NOTE" {
		return nil
	}
	count := make(map[string]int)
	for _, row := range rows {
		count[row[last]]++
	}
	for _, row := range rows {
		note := row[last]
		if note == "" || count[note] < 2 {
			continue
		}
		at := slices.Index(notes, note)
		if at < 0 {
			at, notes = len(notes), append(notes, note)
		}
		row[last] = noteMark(at)
	}
	return notes
}

func noteMark(i int) string { return fmt.Sprintf("[%d]", i+1) }

func (r Replica) cells() []string {
	return []string{r.address(), r.State, console.Cell(r.Version), console.Cell(r.StartedAt), r.Circuits.String(), r.Reason}
}

// printRedis writes the table of the Redis of the counters, and of that of the rows if it is another one.
func (r *Report) printRedis(text *strings.Builder) error {
	header := []string{"ADDRESS", "STATE", "LATENCY", "VERSION", "MODE", "MEMORY", "LIMIT", "POLICY", "EVICTED"}
	err := section(text, "REDIS", r.Redis.Problem, header, r.Redis.rows())
	if r.Cache != nil {
		err = errors.Join(err, section(text, "REDIS of cached rows", r.Cache.Problem, header, r.Cache.rows()))
	}
	return err
}

func (s Redis) rows() [][]string {
	if s.State == redisNone {
		return [][]string{{"none", "requests are counted in memory, for one process"}}
	}
	return [][]string{{s.Address, s.State, milliseconds(s.LatencyMS), console.Cell(s.Version), console.Cell(s.Mode), size(s.MemoryBytes),
		size(s.MaxMemory), console.Cell(s.Policy), number(s.EvictedKeys)}}
}

func (d Database) rows() [][]string {
	if !d.Reachable {
		return nil
	}
	return [][]string{{d.Kind, d.Address, milliseconds(d.LatencyMS), strconv.FormatInt(d.Schema, 10), strconv.FormatInt(d.Known, 10)}}
}

func (o Outage) cells() []string {
	return []string{o.Name, o.Workspace, o.Account, console.Cell(o.Since), o.Note}
}

func (s Archive) print(text *strings.Builder) error {
	var rows [][]string
	for _, p := range s.Properties {
		rows = append(rows, []string{p.GSCProperty, p.State, console.Cell(p.LastArchivedDate), number(p.LagDays), strconv.Itoa(p.Failures), p.ID, p.Note})
	}
	err := section(text, "ARCHIVE up to "+s.Anchor, s.Problem,
		[]string{"GSC PROPERTY", "STATE", "LAST DAY", "DAYS BEHIND", "FAILURES", "ID", "NOTE"}, rows)
	if s.Problem == nil {
		fmt.Fprintf(text, "%s collected: %d complete, %d late, %d failing; %s not collected.%s\n",
			english.Plural(s.Counts.Properties, "property is", "properties are"), s.Counts.Complete, s.Counts.Late, s.Counts.Failing,
			english.Plural(s.Counts.Left, "is", "are"), shown(s.Counts.Properties+s.Counts.Left))
	}
	return err
}

func (s Indexing) print(text *strings.Builder) error {
	var rows [][]string
	for _, p := range s.Properties {
		rows = append(rows, []string{p.GSCProperty, p.State, console.Cell(p.RefreshedAt), number(p.AgeDays), strconv.Itoa(p.URLs),
			strconv.Itoa(p.Failures), p.ID, p.Note})
	}
	err := section(text, "INDEXING", s.Problem, []string{"GSC PROPERTY", "STATE", "REFRESHED", "DAYS OLD", "URLS", "FAILURES", "ID", "NOTE"}, rows)
	if s.Problem == nil {
		fmt.Fprintf(text, "%s inspected: %d late, %d failing; %s not inspected.%s\n",
			english.Plural(s.Counts.Properties, "property is", "properties are"), s.Counts.Late, s.Counts.Failing,
			english.Plural(s.Counts.Left, "is", "are"), shown(s.Counts.Properties+s.Counts.Left))
	}
	return err
}

func shown(all int) string {
	if all <= shownRows {
		return ""
	}
	return fmt.Sprintf(" The worst %d of %d are shown.", shownRows, all)
}

func (s Budgets) print(text *strings.Builder) error {
	var rows [][]string
	for _, a := range s.Accounts {
		for _, ceiling := range a.ceilings() {
			if percent(ceiling.used, ceiling.limit) >= nearPercent {
				rows = append(rows, []string{a.Account, ceiling.shown, usedOf(ceiling.used, ceiling.limit)})
			}
		}
	}
	for _, p := range s.Live {
		rows = append(rows, []string{p.GSCProperty, "live calls this minute", strconv.Itoa(p.UsedPercent) + " %"})
	}
	for _, q := range s.Sites {
		rows = append(rows, []string{q.GSCProperty, "inspections today", usedOf(q.Taken, q.PerDay)})
	}
	hidden := s.Counts.Accounts - len(s.Accounts) + s.Counts.Live - len(s.Live) + s.Counts.Sites - len(s.Sites)
	err := section(text, "BUDGETS nearly used up", s.Problem, []string{"OF", "BUDGET", "USED"}, rows)
	switch {
	case hidden > 0:
		fmt.Fprintf(text, "And %d more.\n", hidden)
	case len(rows) == 0 && s.Problem == nil:
		fmt.Fprintf(text, "No budget has reached %d %%.\n", nearPercent)
	}
	for _, what := range s.Unknown {
		text.WriteString("unknown: " + what + "\n")
	}
	return err
}

func usedOf(used, limit int) string {
	return fmt.Sprintf("%d of %d (%d %%)", used, limit, percent(used, limit))
}

func milliseconds(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms, 'f', 1, 64) + " ms"
}

func size(bytes *int64) string {
	switch {
	case bytes == nil:
		return "-"
	case *bytes == 0:
		return "none"
	}
	return humanize.IBytes(uint64(max(0, *bytes)))
}

func number[N int | int64](n *N) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(int64(*n), 10)
}
