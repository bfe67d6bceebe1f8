package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/tidwall/gjson"

	"sara/translate"
)

func writeJSONL(w io.Writer, records iter.Seq2[Record, error]) error {
	buffered := bufio.NewWriter(w)
	out := json.NewEncoder(buffered)
	out.SetEscapeHTML(false)
	type line struct {
		Date        string  `json:"date"`
		Dimension   string  `json:"dimension"`
		Key         string  `json:"key"`
		Clicks      int64   `json:"clicks"`
		Impressions int64   `json:"impressions"`
		Position    float64 `json:"position"`
	}
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := out.Encode(line{r.Date.String(), DimensionName(r.Dimension), r.Key, r.Clicks, r.Impressions, r.Position}); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

func readJSONL(in io.Reader, yield func(FileRecord, error) bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), longestLine)
	at := Place{Number: 1}
	for ; lines.Scan(); at.Number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		r, err := parseObject(at, line)
		if failed := lines.Err(); err != nil && failed != nil {
			return failed // the line is cut where reading failed
		}
		if err != nil {
			return err
		}
		if !yield(r, nil) {
			return errStopped
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return recordError(at, "", "it is longer than %d bytes", longestLine)
	}
	return lines.Err()
}

// parseObject parses a line, which must be an object with exactly the six members.
func parseObject(at Place, line []byte) (FileRecord, error) {
	if !translate.ValidJSON(line) || line[0] != '{' {
		return FileRecord{}, recordError(at, "", "it is not a JSON object")
	}
	names := columnNames()
	var columns [columnCount]string
	var seen [columnCount]bool
	var err error
	gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
		i := slices.Index(names[:], name.String())
		switch {
		case i < 0:
			err = recordError(at, "", "%.40q is not a column", name.String())
		case seen[i]:
			err = recordError(at, names[i], "it is given twice")
		default:
			seen[i] = true
			columns[i], err = memberText(value, i <= keyColumn)
			if err != nil {
				err = recordError(at, names[i], "%v", err)
			}
		}
		return err == nil
	})
	if missing := slices.Index(seen[:], false); err == nil && missing >= 0 {
		err = recordError(at, names[missing], "it is missing")
	}
	if err != nil {
		return FileRecord{}, err
	}
	return parseRecord(at, columns)
}

func memberText(value gjson.Result, isText bool) (string, error) {
	switch {
	case isText && value.Type == gjson.String:
		return value.String(), nil
	case !isText && value.Type == gjson.Number:
		return value.Raw, nil
	case isText:
		return "", fmt.Errorf("%.40s is not a string", value.Raw)
	}
	return "", fmt.Errorf("%.40s is not a number", value.Raw)
}
