package bulkexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sara/archive"
	"sara/archive/tablefile"
	"sara/translate"
)

// Columns of both tables, by their index in siteColumns and urlColumns.
const (
	dateColumn = iota
	siteColumn
	typeColumn
	impressionsColumn
	clicksColumn
	positionsColumn
	countryColumn // of the table by property
	deviceColumn
	queryColumn
	anonymousColumn
	urlColumn = countryColumn // of the table by URL
)

// checkEvery is the number of rows between two checks of the context.
const checkEvery = 1 << 10

// An ingest reads files into runs.
type ingest struct {
	*spill
	site  []byte // the property's site_url
	until translate.Date
	log   *exportLog // nil if there is none
	// report is called now and then with the bytes read so far.
	report func(bytes int64)
	before int64 // the bytes of the files read before the current one
}

// readAll reads the files that have not been read yet. It begins with the file that was being read: the state has the rows of only one,
// and files may be given in another order, or with others.
func (i *ingest) readAll(ctx context.Context, inputs []Input, ids []fileID) error {
	for _, n := range i.order(ids) {
		if !slices.Contains(i.state.Done, ids[n]) {
			if err := i.readFile(ctx, inputs[n], ids[n]); err != nil {
				return fmt.Errorf("%s: %w", inputs[n].Path, err)
			}
			i.state.Done, i.state.Current = append(i.state.Done, ids[n]), nil
		}
		i.before += ids[n].Size
		i.report(i.before)
	}
	return i.flush(ctx, nil)
}

// order returns the indexes of the files in reading order.
func (i *ingest) order(ids []fileID) []int {
	order := make([]int, len(ids))
	for n := range order {
		order[n] = n
	}
	if c := i.state.Current; c != nil {
		first := slices.Index(ids, c.fileID)
		order[0], order[first] = first, 0
	}
	return order
}

// readFile adds the rows of a file, except for those that the runs of an interrupted import have.
func (i *ingest) readFile(ctx context.Context, in Input, id fileID) (err error) {
	file, cells, err := in.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	at := partial{fileID: id}
	skip := int64(0)
	if c := i.state.Current; c != nil && c.fileID == id {
		skip = c.Rows // the runs have them
	}
	for {
		if at.Rows%checkEvery == 0 {
			i.report(i.before + file.Position())
			switch err := ctx.Err(); {
			case err == nil:
			case at.Rows < skip:
				return err // what was saved before is still valid
			default:
				return errors.Join(err, i.save(&at)) // nothing is lost
			}
		}
		switch err := file.Read(cells); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if at.Rows++; at.Rows <= skip {
			continue
		}
		if err := i.makeRoom(ctx, at); err != nil {
			return err
		}
		if err := i.add(in.Table, cells); err != nil {
			return fmt.Errorf("%s: %w", file.Place(), err)
		}
	}
}

// makeRoom flushes the sums if there may be no room for the last row that was read.
func (i *ingest) makeRoom(ctx context.Context, read partial) error {
	if !i.isFull() {
		return nil
	}
	before := read // on the heap only here, not for each row
	before.Rows--
	return i.flush(ctx, &before)
}

// add adds a row of either table.
func (i *ingest) add(table Table, cells []tablefile.Cell) error {
	counts := &i.state.Counts
	counts.RowsRead++
	if !bytes.Equal(cells[siteColumn].Text(), i.site) {
		counts.otherProperty(string(cells[siteColumn].Text()))
		return nil
	}
	date, ok := cells[dateColumn].Date()
	if !ok {
		return fmt.Errorf("data_date is %s, which is not a day", cells[dateColumn].Describe())
	}
	if date > i.until {
		counts.TooLate++
		return nil
	}
	known, logged := i.state.SiteDays, i.logged(table)
	if table == URL {
		known = i.state.URLDays
	}
	known[date] = true
	if logged != nil && !logged[date] {
		counts.Unlogged++
		return nil
	}
	if !strings.EqualFold(string(cells[typeColumn].Text()), "WEB") {
		counts.OtherTypes++
		return nil
	}
	f, err := figuresOf(cells)
	if err != nil || f.impressions == 0 {
		return err
	}
	if table == URL {
		return i.addKey(group{date, translate.ByPage}, cells[urlColumn].Text(), f)
	}
	return i.addSite(date, cells, f)
}

// logged returns the days of a table that the export log has; nil without a log.
func (i *ingest) logged(table Table) days {
	switch {
	case i.log == nil:
		return nil
	case table == URL:
		return i.log.url
	}
	return i.log.site
}

func (c *Counts) otherProperty(site string) {
	c.OtherProperties++
	if _, counted := c.OtherSites[site]; counted || len(c.OtherSites) < maxOtherSites {
		c.OtherSites[site]++
	}
}

func figuresOf(cells []tablefile.Cell) (f figures, err error) {
	var ok [3]bool
	f.impressions, ok[0] = cells[impressionsColumn].Int()
	f.clicks, ok[1] = cells[clicksColumn].Int()
	f.positions, ok[2] = cells[positionsColumn].Float()
	for n, column := range []int{impressionsColumn, clicksColumn, positionsColumn} {
		if !ok[n] {
			return f, fmt.Errorf("%s is %s, which is not a number", siteColumns()[column], cells[column].String())
		}
	}
	if f.clicks < 0 || f.impressions < f.clicks || f.impressions > largest || f.positions < 0 || f.positions > largest ||
		f.positions/float64(max(1, f.impressions)) > math.MaxInt32-1 { // the archive counts from one, up to MaxInt32
		return f, fmt.Errorf("clicks of %d, impressions of %d and positions of %s are not possible together", f.clicks, f.impressions,
			strconv.FormatFloat(f.positions, 'g', -1, 64))
	}
	return f, nil
}

// addSite adds a row of the table by property to the totals, and to its country, device and query. A null one, such as the device in
// Discover or an anonymized query, is skipped, so the row still counts in the totals.
func (i *ingest) addSite(date translate.Date, cells []tablefile.Cell, f figures) error {
	if err := i.addSum(group{date, translate.ByDate}, nil, f); err != nil {
		return err
	}
	if country := i.lower(cells[countryColumn].Text()); country != nil {
		if err := i.addSum(group{date, translate.ByCountry}, country, f); err != nil {
			return err
		}
	}
	if device := deviceOf(cells[deviceColumn].Text()); device != nil {
		if err := i.addSum(group{date, translate.ByDevice}, device, f); err != nil {
			return err
		}
	}
	anonymous, ok := cells[anonymousColumn].Bool()
	if !ok {
		return fmt.Errorf("is_anonymized_query is %s, which is neither true nor false", cells[anonymousColumn].String())
	}
	if anonymous {
		return nil
	}
	return i.addKey(group{date, translate.ByQuery}, cells[queryColumn].Text(), f)
}

// addKey adds a query or URL, unless the archive cannot hold it.
func (i *ingest) addKey(g group, key []byte, f figures) error {
	if len(key) == 0 || len(key) > archive.LongestKey {
		return nil
	}
	if !utf8.Valid(key) {
		return fmt.Errorf("%.80q is not UTF-8", key)
	}
	return i.addSum(g, key, f)
}

// lower returns a three-letter country in lower case, as the archive has it; nil for anything else.
func (i *ingest) lower(country []byte) []byte {
	if len(country) != 3 {
		return nil
	}
	for n, c := range country {
		if c |= 0x20; c < 'a' || c > 'z' {
			return nil
		}
		i.country[n] = country[n] | 0x20
	}
	return i.country[:]
}

// deviceOf returns a device in upper case; nil if the archive does not know it.
func deviceOf(text []byte) []byte {
	for _, device := range translate.Devices() {
		if len(text) == len(device) && strings.EqualFold(string(text), device) {
			return []byte(device)
		}
	}
	return nil
}
