package main

import (
	"context"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
)

type annotationCommands struct {
	Add    annotationAdd    `cmd:"" help:"Add an annotation to a property."`
	List   annotationList   `cmd:"" help:"List the annotations of a property, by date."`
	Remove annotationRemove `cmd:"" help:"Remove an annotation."`
}

type annotationRecord struct {
	ID        string `json:"id"`
	Date      string `json:"date"`
	Title     string `json:"title"`
	Note      string `json:"note"`
	Color     string `json:"color"`
	CreatedAt string `json:"created_at"`
}

func (annotationRecord) Header() []string { return []string{"DATE", "TITLE", "COLOR", "ID", "NOTE"} }

func (a annotationRecord) Cells() []string { return []string{a.Date, a.Title, a.Color, a.ID, a.Note} }

func recordOfAnnotation(a sqlstore.Annotation) annotationRecord {
	return annotationRecord{ID: a.ID, Date: a.Date.String(), Title: a.Title, Note: a.Note, Color: a.Color,
		CreatedAt: console.Timestamp(a.CreatedAt)}
}

type annotationAdd struct {
	storeFlags
	console.Output
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
	Date     date   `required:"" placeholder:"DATE" help:"Its day, YYYY-MM-DD."`
	Title    string `required:"" help:"What happened, in 1 to 200 characters."`
	Note     string `help:"Further details."`
	Color    string `help:"red, orange, yellow, green, blue, purple, pink, gray or #rrggbb; default: blue."`
}

func (c *annotationAdd) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		a, err := store.AddAnnotation(ctx, c.Property,
			sqlstore.Annotation{Date: c.Date.Date, Title: c.Title, Note: c.Note, Color: c.Color})
		if err != nil {
			return err
		}
		return console.One(c.Output, con.Stdout, recordOfAnnotation(a))
	})
}

type annotationList struct {
	storeFlags
	console.Output
	Property string `arg:"" help:"Id, Search Console property, slug or domain."`
}

func (c *annotationList) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		annotations, err := store.Annotations(ctx, property.ID, nil, nil)
		if err != nil {
			return err
		}
		return console.Many(c.Output, con.Stdout, console.Each(annotations, recordOfAnnotation))
	})
}

type annotationRemove struct {
	storeFlags
	console.Output
	ID string `arg:"" name:"annotation_id" help:"Id of the annotation, as annotation list shows it."`
}

type removalRecord struct {
	ID string `json:"id"`
}

func (removalRecord) Header() []string  { return []string{"REMOVED"} }
func (r removalRecord) Cells() []string { return []string{r.ID} }

func (c *annotationRemove) Run(ctx context.Context, con *console.Console) error {
	return c.use(ctx, func(store *sqlstore.Store) error {
		if err := store.RemoveAnnotation(ctx, c.ID); err != nil {
			return err
		}
		return console.One(c.Output, con.Stdout, removalRecord{c.ID})
	})
}
