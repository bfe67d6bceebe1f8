package archive

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"sara/translate"
)

func FuzzLedger(f *testing.F) {
	m := smallMonth(f).ledger
	good := m.metadata()
	country := good[daysKeyPrefix+"country"]
	for _, days := range []string{country, country[1:], country + "-", "x" + country[1:]} {
		f.Add(good[versionKey], good[propertyKey], good[monthKey], days, good[daysKeyPrefix+"device"],
			good[daysKeyPrefix+"page"], good[daysKeyPrefix+"query"], good[daysKeyPrefix+"total"])
	}
	f.Add("2", "", "", "", "", "", "", "")
	f.Fuzz(func(t *testing.T, version, property, month, country, device, page, query, total string) {
		metadata := map[string]string{versionKey: version, propertyKey: property, monthKey: month, daysKeyPrefix + "country": country,
			daysKeyPrefix + "device": device, daysKeyPrefix + "page": page, daysKeyPrefix + "query": query, daysKeyPrefix + "total": total}
		l, err := parseLedger(m.property, m.month, func(key string) (string, bool) {
			value, ok := metadata[key]
			return value, ok
		})
		// Accepted metadata is exactly what would be written.
		if err == nil && !maps.Equal(l.metadata(), metadata) {
			t.Errorf("%v is read as %v", metadata, l.metadata())
		}
		isGood := version == "1" && property == m.property && month == "2026-02"
		for _, days := range []string{country, device, page, query, total} {
			isGood = isGood && len(days) == 28 && strings.Trim(days, "-cCiI") == ""
		}
		if isGood != (err == nil) {
			t.Errorf("%v: %v", metadata, err)
		}
	})
}

func FuzzObject(f *testing.F) {
	m := smallMonth(f)
	good := encoded(f, m)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(checksumMark))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := openObject(testProperty, m.month, data)
		if fault := (*ObjectError)(nil); err != nil && !errors.As(err, &fault) {
			t.Errorf("%T", err)
		}
		if err == nil && !bytes.Equal(data, good) {
			t.Errorf("%+v is accepted", o.ledger)
		}
	})
}

// readAll returns the records of a file, or the error.
func readAll(data []byte, f Format) (all []Record, err error) {
	for r, err := range ReadRecords(bytes.NewReader(data), int64(len(data)), f) {
		if err != nil {
			return nil, err
		}
		all = append(all, r.Record)
	}
	return all, nil
}

// slowRecord is a naive parser of a record, without error messages.
func slowRecord(columns []string) (r Record, ok bool) {
	if len(columns) != 6 {
		return r, false
	}
	date, err := translate.ParseDate(columns[0])
	names := map[string]translate.Dimension{"query": translate.ByQuery, "page": translate.ByPage, "country": translate.ByCountry,
		"device": translate.ByDevice, "total": translate.ByDate}
	by, known := names[columns[1]]
	numbers := make([]float64, 3)
	for i := range numbers {
		text := columns[3+i]
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || strings.ContainsAny(text, "xXpP_nN") || text[0] == '+' {
			return r, false
		}
		numbers[i] = f
	}
	clicks, impressions := int64(numbers[0]), int64(numbers[1])
	if err != nil || !known || float64(clicks) != numbers[0] || float64(impressions) != numbers[1] ||
		min(clicks, impressions) < 0 || max(clicks, impressions) > 1<<53 {
		return r, false
	}
	return Record{date, by, columns[2], clicks, impressions, numbers[2]}, true
}

const csvHeader = "date,dimension,key,clicks,impressions,position\n"

func FuzzCSV(f *testing.F) {
	f.Add(csvHeader + "2026-05-01,query,a,1,2,3.5\n")
	f.Add(csvHeader + "\n2026-05-01,\"page\",\"a\n\"\"b\"\"\",1,2.0,3.5\n\n2026-05-01,total,,1e2,2E2,3")
	f.Add(csvHeader + "2026-05-01,query,''=1,1,2,3.5\n2026-05-01,query,-1,1,2,3.5\n2026-05-01,query,'a,1,2,3.5\n")
	f.Add(csvHeader + `2026-05-01,query,"a`)
	f.Add(csvHeader + `2026-05-01,query,a"b,1,2,3`)
	f.Add("\ufeff" + csvHeader + `""`)
	f.Fuzz(func(t *testing.T, file string) {
		if strings.ContainsRune(file, '\r') {
			return // which the reference drops within quotes
		}
		got, err := readAll([]byte(file), CSV)
		want, ok := slowCSV(strings.TrimPrefix(file, "\ufeff"))
		if ok != (err == nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %+v, %v, want %+v, %v", file, got, err, want, ok)
		}
	})
}

func slowCSV(file string) ([]Record, bool) {
	in := csv.NewReader(strings.NewReader(file))
	in.FieldsPerRecord = -1
	lines, err := in.ReadAll()
	if err != nil || len(lines) == 0 || strings.Join(lines[0], "|") != "date|dimension|key|clicks|impressions|position" {
		return nil, false
	}
	var all []Record
	for _, line := range lines[1:] {
		if guarded := regexp.MustCompile(`^'+[=+@\t\r\n-]`); len(line) > 2 && guarded.MatchString(line[2]) {
			line[2] = line[2][1:]
		}
		r, ok := slowRecord(line)
		if !ok {
			return nil, false
		}
		all = append(all, r)
	}
	return all, true
}

func FuzzJSONL(f *testing.F) {
	f.Add(`{"date":"2026-05-01","dimension":"query","key":"a","clicks":1,"impressions":2,"position":3.5}`)
	f.Add("\n{\"position\":1e1,\"date\":\"2026-05-01\",\"dimension\":\"total\",\"key\":\"\",\"clicks\":1.0,\"impressions\":2}\n\n")
	f.Add(`{"date":"2026-05-01","dimension":"query","key":"\ud83c\udf37\u0000","clicks":1,"impressions":2,"position":-0}`)
	f.Add(`{"date":1,"dimension":null,"key":[],"clicks":"1"}`)
	f.Fuzz(func(t *testing.T, file string) {
		if !utf8.ValidString(file) || len(file) > longestLine {
			return // which the reference replaces; the import refuses it later
		}
		got, err := readAll([]byte(file), JSONL)
		want, ok := slowJSONL(file)
		if ok != (err == nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %+v, %v, want %+v, %v", file, got, err, want, ok)
		}
	})
}

func slowJSONL(file string) (all []Record, ok bool) {
	for line := range strings.SplitSeq(file, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		columns, ok := slowMembers(line)
		if !ok {
			return nil, false
		}
		r, ok := slowRecord(columns)
		if !ok {
			return nil, false
		}
		all = append(all, r)
	}
	return all, true
}

// slowMembers returns the six members of an object in the order of the columns.
func slowMembers(line string) ([]string, bool) {
	in := json.NewDecoder(strings.NewReader(line))
	in.UseNumber()
	var tokens []json.Token
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false
		}
		tokens = append(tokens, token)
	}
	if len(tokens) != 14 || tokens[0] != json.Delim('{') || !json.Valid([]byte(line)) {
		return nil, false
	}
	names := columnNames()
	columns := make([]string, len(names))
	seen := make(map[string]bool)
	for i := 1; i < 13; i += 2 {
		name, isName := tokens[i].(string)
		at := slices.Index(names[:], name)
		text, isText := tokens[i+1].(string)
		number, isNumber := tokens[i+1].(json.Number)
		if !isName || at < 0 || seen[name] || at <= 2 && !isText || at > 2 && !isNumber {
			return nil, false
		}
		seen[name] = true
		columns[at] = text + number.String()
	}
	return columns, true
}

func FuzzParquet(f *testing.F) {
	var file bytes.Buffer
	want := []Record{{Date: 20_000, Dimension: translate.ByQuery, Key: "a", Clicks: 1, Impressions: 2, Position: 3}}
	if err := WriteRecords(&file, Parquet, recordsOf(want)); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		// Any untrusted file must result in records or an error.
		_, _ = readAll(data, Parquet)
	})
}
