package command

import (
	"context"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

type annotationCommands struct {
	Add    annotationAdd    `cmd:"" help:"Add an annotation to a property." example:"sara annotation add shop --date 2026-03-01 --title 'Relaunch' --color green"`
	List   annotationList   `cmd:"" help:"List the annotations of a property, by date." example:"sara annotation list shop"`
	Remove annotationRemove `cmd:"" help:"Remove an annotation." example:"sara annotation remove 0195f3c2-7d1e-7b52-9d3f-3f8a2c6d9e10"`
}

type annotationRecord struct {
	ID        string `json:"id"`
	Date      string `json:"date"`
	Title     string `json:"title"`
	Note      string `json:"note"`
	Color     string `json:"color"`
	CreatedAt string `json:"created_at"`
}

func (a annotationRecord) Columns() []console.Column {
	return []console.Column{{"DATE", a.Date}, {"TITLE", a.Title}, {"COLOR", a.Color}, {"ID", a.ID}, {"NOTE", a.Note}}
}

func recordOfAnnotation(a sqlstore.Annotation) annotationRecord {
	return annotationRecord{ID: a.ID, Date: a.Date.String(), Title: a.Title, Note: a.Note, Color: a.Color,
		CreatedAt: console.Timestamp(a.CreatedAt)}
}

type annotationAdd struct {
	propertyFlags
	Date  date   `required:"" placeholder:"DATE" help:"Its day, YYYY-MM-DD."`
	Title string `required:"" help:"What happened, in 1 to 200 characters."`
	Note  string `empty:"" help:"Further details."`
	Color string `help:"red, orange, yellow, green, blue, purple, pink, gray or #rrggbb; default: blue."`
}

func (c *annotationAdd) Run(ctx context.Context, con *console.Console) error {
	return c.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		a, err := store.AddAnnotation(ctx, c.Property, sqlstore.Annotation{Date: c.Date.Date, Title: c.Title, Note: c.Note, Color: c.Color})
		return recordOfAnnotation(a), err
	})
}

type annotationList struct{ propertyFlags }

func (c *annotationList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]annotationRecord, error) {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return nil, err
		}
		annotations, err := store.Annotations(ctx, property.ID, nil, nil)
		return console.Each(annotations, recordOfAnnotation), err
	}, "the property has no annotation yet: add one.", console.CommandLine("annotation", "add", c.Property, "--date", "DATE", "--title", "TITLE"))
}

type annotationRemove struct {
	recordFlags
	ID string `arg:"" name:"annotation_id" help:"Id of the annotation, as annotation list shows it."`
}

type removalRecord struct {
	ID string `json:"id"`
}

func (r removalRecord) Columns() []console.Column { return []console.Column{{"REMOVED", r.ID}} }

func (c *annotationRemove) Run(ctx context.Context, con *console.Console) error {
	return c.show(ctx, con, func(store *sqlstore.Store) (console.Record, error) {
		return removalRecord{c.ID}, store.RemoveAnnotation(ctx, c.ID)
	})
}
