package command

import (
	"context"
	"errors"

	"sara/archive/sqlstore"
	"sara/cmd/sara/internal/console"
	"sara/translate"
)

type brandTermCommands struct {
	Set  brandTermsSet  `cmd:"" help:"Replace the brand terms of a property." example:"sara brand-terms set shop acme 'exact:acme shop' 'regex:ac+me'"`
	List brandTermsList `cmd:"" help:"List the brand terms of a property." example:"sara brand-terms list shop"`
}

type brandTermRecord struct {
	ID        string `json:"id"`
	Term      string `json:"term"`
	MatchType string `json:"match_type"`
	CreatedAt string `json:"created_at"`
}

func (t brandTermRecord) Columns() []console.Column {
	return []console.Column{{"TERM", t.Term}, {"MATCH", t.MatchType}, {"CREATED", t.CreatedAt}, {"ID", t.ID}}
}

func recordOfBrandTerm(t translate.BrandTerm) brandTermRecord {
	return brandTermRecord{ID: t.ID, Term: t.Term, MatchType: t.MatchType, CreatedAt: console.Timestamp(t.CreatedAt)}
}

type brandTermsSet struct {
	propertyFlags
	Terms []string `arg:"" optional:"" name:"term" help:"TERM (queries that contain it), exact:TERM or regex:TERM."`
	Clear bool     `help:"Remove all terms."`
}

// brandTermSet is the result of set: the property's id and all its terms.
type brandTermSet struct {
	ID    string            `json:"id"`
	Terms []brandTermRecord `json:"terms"`
}

// Validate implements kong's check of a command line.
func (c *brandTermsSet) Validate() error {
	if c.Property != "" && c.Clear != (len(c.Terms) == 0) { // kong reports a missing property
		return errors.New("name the new terms of the property, or remove all with --clear")
	}
	return nil
}

func (c *brandTermsSet) Run(ctx context.Context, con *console.Console) error {
	terms := make([]translate.BrandTerm, len(c.Terms))
	for i, text := range c.Terms {
		var err error
		if terms[i], err = translate.ParseBrandTerm(text); err != nil {
			return usage(err)
		}
	}
	return c.use(ctx, con, func(store *sqlstore.Store) error {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return err
		}
		stored, err := store.SetBrandTerms(ctx, property.ID, terms)
		if err != nil {
			return err
		}
		records := console.Each(stored, recordOfBrandTerm)
		if c.JSON {
			return console.PrintJSON(con.Stdout, brandTermSet{property.ID, records})
		}
		return console.Many(c.Output, con.Stdout, records)
	})
}

type brandTermsList struct{ propertyFlags }

func (c *brandTermsList) Run(ctx context.Context, con *console.Console) error {
	return list(ctx, con, c.recordFlags, func(store *sqlstore.Store) ([]brandTermRecord, error) {
		property, err := store.Property(ctx, c.Property)
		if err != nil {
			return nil, err
		}
		terms, err := store.BrandTerms(ctx, property.ID)
		return console.Each(terms, recordOfBrandTerm), err
	}, "the property has no brand terms yet: set them.", console.CommandLine("brand-terms", "set", c.Property, "TERM"))
}
