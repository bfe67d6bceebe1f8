package sqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// backupLimit bounds the transaction of a dump or a load.
	backupLimit = 4 * time.Hour
	// longestDumpLine bounds a row of a dump. Credentials and notes have at most a few kilobytes.
	longestDumpLine = 16 << 20
)

// dumpedTables lists the tables of a dump, each after those that it refers to.
func dumpedTables() []string {
	return []string{"accounts", "people", "workspaces", "memberships", "connections", "properties", "property_shares", "api_keys",
		"brand_terms", "page_groups", "annotations", "usage_counts", "replica_usage", "archive_states", "index_states", "index_sitemaps",
		"index_sitemap_sets", "coverage_labels", "indexed_urls", "staged_inspections", "index_counts", "index_days", "inspection_counts",
		"edition", "audit_log", "removed_properties"}
}

// tablesLeftOut lists the tables that are not dumped: leases expire by themselves, the status look is counted again, and the version of the
// schema is not a row of the dump.
func tablesLeftOut() []string { return []string{"leases", "status_look", "goose_db_version"} }

// A dumpedTable is the line of a dump before the rows of a table, which are JSON arrays. Both databases have the same tables, so a dump
// of either can be loaded into the other.
type dumpedTable struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Kinds   []string `json:"kinds"` // of the columns: text, integer, boolean or bytes (in base64)
}

// A Dump describes what Store.Dump wrote.
type Dump struct {
	Kind   string         // of the database
	Schema int64          // its version
	Rows   map[string]int // by table
}

// Dump writes a consistent snapshot of the rows of all tables while others write. Stored credentials stay sealed. Its memory use does not
// depend on the number of rows.
func (s *Store) Dump(ctx context.Context, w io.Writer) (_ Dump, err error) {
	defer wrap(&err, "dump the %s database", s.dialect)
	schema, err := s.CheckDump(ctx)
	if err != nil {
		return Dump{}, err
	}
	d := Dump{Kind: string(s.dialect), Schema: schema, Rows: make(map[string]int)}
	err = snapshot(ctx, s.overview, backupLimit, func(ctx context.Context, tx *sql.Tx) error {
		for _, table := range dumpedTables() {
			rows, err := dumpTable(ctx, tx, w, table)
			if err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
			d.Rows[table] = rows
		}
		return nil
	})
	return d, err
}

// CheckDump returns the version of the schema, and an error if Dump refuses the database because it is not this program's.
func (s *Store) CheckDump(ctx context.Context) (schema int64, err error) {
	current, known, err := s.SchemaVersion(ctx)
	switch {
	case err != nil:
		return current, err
	case current < known:
		return current, fmt.Errorf("the database has schema version %d, but this program dumps only version %d: "+
			"back it up with the version of sara that serves it, or run sara migrate first", current, known)
	}
	return current, newerSchema(current, known)
}

func dumpTable(ctx context.Context, tx *sql.Tx, w io.Writer, table string) (count int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	head, err := describe(table, rows)
	if err != nil {
		return 0, err
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(head); err != nil {
		return 0, err
	}
	values, places := make([]any, len(head.Columns)), make([]any, len(head.Columns))
	for i := range values {
		places[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return count, err
		}
		for i, kind := range head.Kinds {
			if values[i], err = dumpValue(kind, values[i]); err != nil {
				return count, fmt.Errorf("column %s: %w", head.Columns[i], err)
			}
		}
		if err := lines.Encode(values); err != nil {
			return count, err
		}
		count++
	}
	return count, rows.Err()
}

// describe returns the columns of a result.
func describe(table string, rows *sql.Rows) (dumpedTable, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return dumpedTable{}, err
	}
	head := dumpedTable{Table: table}
	for _, t := range types {
		kind := ""
		switch name := strings.ToUpper(t.DatabaseTypeName()); name {
		case "TEXT":
			kind = "text"
		case "BIGINT", "INTEGER", "SMALLINT", "INT2", "INT4", "INT8":
			kind = "integer"
		case "BOOLEAN", "BOOL":
			kind = "boolean"
		case "BYTEA", "BLOB":
			kind = "bytes"
		default:
			return head, fmt.Errorf("BUG: column %s has the type %s", t.Name(), name)
		}
		head.Columns, head.Kinds = append(head.Columns, t.Name()), append(head.Kinds, kind)
	}
	return head, nil
}

// dumpValue returns the JSON of a value. The databases' drivers return it in different forms.
func dumpValue(kind string, value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case bool:
		return v, nil
	case int64:
		if kind == "boolean" {
			return v != 0, nil
		}
		return v, nil
	case string:
		if kind == "bytes" {
			return base64.StdEncoding.EncodeToString([]byte(v)), nil
		}
		return v, nil
	case []byte:
		if kind == "text" {
			return string(v), nil
		}
		return base64.StdEncoding.EncodeToString(v), nil
	}
	return nil, fmt.Errorf("BUG: a value of type %T", value)
}
