package command

import (
	"context"
	"errors"
	"fmt"

	"sara/archive/bulkexport"
	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/translate"
)

type archiveBigQuerySQL struct {
	storeFlags
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
	Dataset  string `required:"" placeholder:"DATASET" help:"Dataset of the bulk export, such as searchconsole or my-project.searchconsole."`
	From     *date  `placeholder:"DATE" help:"First day, YYYY-MM-DD; default: the first that Search Console can have exported."`
	To       *date  `placeholder:"DATE" help:"Last day, YYYY-MM-DD; default: the last whose figures are final."`
	URI      string `name:"uri" default:"gs://BUCKET/PREFIX/sara-*.parquet" placeholder:"URI" help:"Where BigQuery writes the files, with one star; use a new prefix for each export. Default: ${default}, to be edited."`
}

// Help is the longer help of the command.
func (archiveBigQuerySQL) Help() string {
	return `Prints a statement for BigQuery that adds up the tables of Search Console's bulk export there and exports only what the archive keeps: some 500 rows a day. Download the files, and import them with sara archive import PROPERTY 'sara-*.parquet'. It takes the days that the export log has. The query reads both tables once for the days asked for, which BigQuery bills.`
}

// Validate implements kong's check of a command line.
func (c *archiveBigQuerySQL) Validate() error {
	if c.From != nil && c.To != nil && c.From.Date > c.To.Date {
		return fmt.Errorf("--from %s is after --to %s", c.From, c.To)
	}
	return nil
}

func (c *archiveBigQuerySQL) Run(ctx context.Context, con *console.Console) error {
	calendar, err := translate.NewCalendar()
	if err != nil {
		return err
	}
	q := bulkexport.Query{Dataset: c.Dataset, URI: c.URI, Days: translate.DateRange{Start: bulkexport.FirstExport(), End: calendar.Anchor(con.Now())}}
	if c.From != nil {
		q.Days.Start = c.From.Date
	}
	if c.To != nil {
		q.Days.End = min(c.To.Date, q.Days.End)
	}
	if q.Days.Start > q.Days.End {
		return usage(errors.New("--from is after the last day whose figures are final, " + q.Days.End.String()))
	}
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		q.SiteURL = property.Site
		if err := q.Check(); err != nil {
			return usage(err)
		}
		_, err = fmt.Fprint(con.Stdout, q)
		return err
	})
}
