// Package media knows the media types in which the API can answer, and which of them a client prefers (RFC 9110, Accept).
package media

import "bytes"

// A Format is a media type that the API can answer in. All answers are available as JSON, those with rows in every format.
type Format uint8

// The formats.
const (
	JSON Format = iota
	CSV
	NDJSON
	formats
)

// String returns the name of the format in logs.
func (f Format) String() string { return [formats]string{"json", "csv", "ndjson"}[f] }

// ContentType returns the media type as Content-Type has it.
func (f Format) ContentType() string {
	switch f {
	case CSV:
		return "text/csv; charset=utf-8"
	case NDJSON:
		return "application/x-ndjson"
	}
	return "application/json; charset=utf-8"
}

// Type returns the two parts of the media type.
func (f Format) Type() (kind, subtype string) {
	switch f {
	case CSV:
		return "text", "csv"
	case NDJSON:
		return "application", "x-ndjson"
	}
	return "application", "json"
}

// hasParameter reports whether the representation in this format has a parameter of its media type (RFC 4180, RFC 8259).
func (f Format) hasParameter(name, value []byte) bool {
	return bytes.EqualFold(name, []byte("charset")) && bytes.EqualFold(value, []byte("utf-8")) ||
		f == CSV && bytes.EqualFold(name, []byte("header")) && bytes.EqualFold(value, []byte("present"))
}

// An Acceptance is what the Accept fields of a request say about the formats (RFC 9110, section 12.5.1). The zero value is that of a
// request without such a field.
type Acceptance [formats]struct {
	specificity uint8 // of the media range that decides: 0 is none, and one by its full name has at least bySubtype
	weight      uint16
}

// The specificities of media ranges. Each parameter adds one.
const (
	byWildcard = 1 + iota // */*
	byType                // text/*
	bySubtype             // text/csv
)

// maxWeight is q=1 in thousandths.
const maxWeight = 1000

// Format returns the preferred format. With equal weights, a format that is named precedes those that only match a wildcard: a
// browser, which names none, gets JSON. So does a client that accepts no format at all.
func (a *Acceptance) Format() (best Format) {
	for f := CSV; f < formats; f++ {
		switch mine, others := a[f], a[best]; {
		case mine.weight > others.weight,
			mine.weight > 0 && mine.weight == others.weight && mine.specificity >= bySubtype && others.specificity < bySubtype:
			best = f
		}
	}
	return best
}

// Read reads a line of the field. Ranges that are malformed are ignored.
func (a *Acceptance) Read(line []byte) {
	for more := true; more; {
		var element []byte
		element, line, more = cutUnquoted(line, ',')
		a.readRange(element)
	}
}

func (a *Acceptance) readRange(element []byte) {
	name, rest, more := cutUnquoted(element, ';')
	kind, subtype, ok := bytes.Cut(bytes.TrimSpace(name), []byte("/"))
	if !ok {
		return
	}
	var applies [formats]uint8 // the specificity of the range for a format; 0: it does not apply
	for f := range formats {
		applies[f] = f.matches(kind, subtype)
	}
	weight := maxWeight
	for more {
		var parameter []byte
		parameter, rest, more = cutUnquoted(rest, ';')
		name, value, _ := bytes.Cut(bytes.TrimSpace(parameter), []byte("="))
		if len(name) == 1 && name[0]|' ' == 'q' { // what follows extends Accept, and says nothing about the media type
			if weight, ok = parseWeight(value); !ok {
				return
			}
			break
		}
		for f := range formats {
			switch {
			case len(name) == 0 || applies[f] == 0:
			case f.hasParameter(name, bytes.Trim(value, `"`)):
				applies[f]++
			default:
				applies[f] = 0
			}
		}
	}
	for f := range formats {
		if said := &a[f]; applies[f] > said.specificity || applies[f] > 0 && applies[f] == said.specificity && weight > int(said.weight) {
			said.specificity, said.weight = applies[f], uint16(weight)
		}
	}
}

// matches returns the specificity of a media range for the format, 0 if it does not match.
func (f Format) matches(kind, subtype []byte) uint8 {
	ownKind, ownSubtype := f.Type()
	any := string(subtype) == "*"
	switch {
	case any && string(kind) == "*":
		return byWildcard
	case !bytes.EqualFold(kind, []byte(ownKind)):
		return 0
	case any:
		return byType
	case bytes.EqualFold(subtype, []byte(ownSubtype)):
		return bySubtype
	}
	return 0
}

// parseWeight returns a quality value in thousandths: 0 to 1, with at most three decimals.
func parseWeight(text []byte) (thousandths int, ok bool) {
	const decimals = 3
	whole, fraction, _ := bytes.Cut(bytes.TrimSpace(text), []byte("."))
	if len(whole) != 1 || whole[0] != '0' && whole[0] != '1' || len(fraction) > decimals {
		return 0, false
	}
	thousandths = int(whole[0] - '0')
	for i := range decimals {
		digit := byte('0')
		if i < len(fraction) {
			digit = fraction[i]
		}
		if digit < '0' || digit > '9' {
			return 0, false
		}
		thousandths = 10*thousandths + int(digit-'0')
	}
	return thousandths, thousandths <= maxWeight
}

// cutUnquoted is bytes.Cut around the first separator that is not in a quoted string.
func cutUnquoted(text []byte, separator byte) (before, after []byte, found bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return text[:i], text[i+1:], true
		}
	}
	return text, nil, false
}
