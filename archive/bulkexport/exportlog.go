package bulkexport

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"sara/translate"
)

// days is a set of days.
type days map[translate.Date]bool

// exportLog has the days that Search Console exported, for each table.
type exportLog struct{ site, url days }

// readLog reads a file of the table ExportLog.
func readLog(path string) (_ *exportLog, err error) {
	found, err := Find([]string{path})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	log := &exportLog{site: days{}, url: days{}}
	for _, in := range found {
		if in.Err != nil {
			return nil, in.Err
		}
		if in.Table != Log {
			return nil, fmt.Errorf("it is not the table ExportLog, which has the columns %s", strings.Join(logColumns(), ", "))
		}
		if err := log.read(in); err != nil {
			return nil, err
		}
	}
	if len(log.site) == 0 && len(log.url) == 0 {
		return nil, errors.New("it has no days of either table")
	}
	return log, nil
}

func (l *exportLog) read(in Input) (err error) {
	file, cells, err := in.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for {
		if err := file.Read(cells); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		date, ok := cells[dateColumn].Date()
		if !ok {
			return fmt.Errorf("%s: data_date is %s, which is not a day", file.Place(), cells[dateColumn].Describe())
		}
		switch namespace := strings.ToUpper(string(cells[1].Text())); {
		case strings.HasSuffix(namespace, "SITE_IMPRESSION"):
			l.site[date] = true
		case strings.HasSuffix(namespace, "URL_IMPRESSION"):
			l.url[date] = true
		}
	}
}
