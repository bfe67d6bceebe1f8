package translate

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// Params are the validated parameters of a request. Which fields are set depends on its endpoint.
type Params struct {
	Period          Period
	Filters         []Filter // ANDed; empty for none
	Limit, Offset   int
	Order           Order
	Compare         Comparison
	MinClicks       int    // of the movers, in either period
	IncludeArchived bool   // include_archived
	From, To        *Date  // start_date and end_date as given; nil when absent
	IncludeTrend    bool   // include_trend: the daily counts of the indexing
	TrendDays       int    // of the trend
	Bucket          Bucket // of the URLs to list; 0 for all
	CoverageState   string // of the URLs to list, as the breakdown shows it; empty for all
	SitemapPath     string // of the URLs to list; empty for all
	Contains        string // a substring of the URLs to list, case-insensitive; empty for all
	Notes           []string

	preset string // of date_range
}

// Kind is the type of a parameter, for OpenAPI.
type Kind string

// The kinds of parameters.
const (
	KindInteger Kind = "integer"
	KindBoolean Kind = "boolean"
	KindString  Kind = "string"
	KindDate    Kind = "date"    // a string, YYYY-MM-DD
	KindFilters Kind = "filters" // a string that holds a JSON array of filters
)

// A Param declares a query parameter of an endpoint, for Parse and for OpenAPI.
type Param struct {
	Name        string
	Kind        Kind
	Description string
	Default     string   // as in a URL; empty for none
	Choices     []string // the allowed values; nil for any
	Min, Max    int      // of an integer without Choices; Max 0 for MaxInteger
	MaxLength   int      // in characters; 0 for no bound
	Extension   bool     // beyond the specification of the API

	read func(*Params, string) error // must not retain the string, see Parse
}

// maxText is the maximum length of a URL in a sitemap.
const maxText = 2048

// MaxInteger bounds integers without a bound in the API, so that sums cannot overflow.
const MaxInteger = 1_000_000_000

func integer(name string, def, low, high int, description string, set func(*Params, int)) Param {
	bound := high
	if high == 0 {
		bound = MaxInteger
	}
	return Param{Name: name, Kind: KindInteger, Description: description, Default: strconv.Itoa(def), Min: low, Max: high,
		read: func(p *Params, s string) error {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil || int(n) < low || int(n) > bound {
				return invalid("%s %.40q is not an integer from %d to %d", name, s, low, bound)
			}
			set(p, int(n))
			return nil
		}}
}

func boolean(name, description string, set func(*Params, bool)) Param {
	return choice(name, "false", []string{"true", "false"}, description, func(p *Params, s string) { set(p, s == "true") }).as(KindBoolean)
}

func choice(name, def string, choices []string, description string, set func(*Params, string)) Param {
	return Param{Name: name, Kind: KindString, Description: description, Default: def, Choices: choices,
		read: func(p *Params, s string) error {
			i := slices.Index(choices, s)
			if i < 0 {
				return invalid("%s %.40q is not one of %s", name, s, strings.Join(choices, ", "))
			}
			set(p, choices[i])
			return nil
		}}
}

// text declares a string of up to maxText characters.
func text(name, description string, set func(*Params, string)) Param {
	return Param{Name: name, Kind: KindString, Description: description, MaxLength: maxText, read: func(p *Params, s string) error {
		if utf8.RuneCountInString(s) > maxText {
			return invalid("%s is longer than %d characters", name, maxText)
		}
		set(p, strings.Clone(s))
		return nil
	}}
}

func (p Param) as(kind Kind) Param {
	p.Kind = kind
	return p
}

func (p Param) extended() Param {
	p.Extension = true
	return p
}

func date(name, description string, set func(*Params, Date)) Param {
	return Param{Name: name, Kind: KindDate, Description: description, read: func(p *Params, s string) error {
		d, err := ParseDate(s)
		if err != nil {
			return invalid("%s: %v", name, err)
		}
		set(p, d)
		return nil
	}}
}

// Parse reads a raw query string. The Window resolves date presets. Parse is strict: an unknown name, a duplicate, an empty
// value, a broken escape, a NUL or invalid UTF-8 is an error, so that no response is read under a label that it does not
// have. Neither the Params nor an error retains rawQuery.
func Parse(endpoint Endpoint, rawQuery []byte, w Window) (*Params, error) {
	params := endpoint.Params
	p := &Params{Compare: endpoint.Compare}
	query := unsafe.String(unsafe.SliceData(rawQuery), len(rawQuery)) // valid until Parse returns
	var given indexSet
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		i, value, err := readPair(params, pair)
		if err != nil {
			return nil, err
		}
		if given.has(i) {
			return nil, invalid("%s is given twice", params[i].Name)
		}
		given.add(i)
		if err := params[i].read(p, value); err != nil {
			return nil, err
		}
	}
	if err := p.complete(params, given, w); err != nil {
		return nil, err
	}
	return p, nil
}

// An indexSet is a bit set of indexes below 64.
type indexSet uint64

func (s indexSet) has(i int) bool { return s&(1<<i) != 0 }
func (s *indexSet) add(i int)     { *s |= 1 << i }

// complete sets the defaults, and resolves the period, which depends on several parameters.
func (p *Params) complete(params []Param, given indexSet, w Window) error {
	for i := range params {
		param := &params[i]
		if given.has(i) || param.Default == "" {
			continue
		}
		if err := param.read(p, param.Default); err != nil {
			return err
		}
	}
	if p.From != nil && p.To != nil && *p.From > *p.To {
		return invalid("start_date %s is after end_date %s", *p.From, *p.To)
	}
	preset := slices.IndexFunc(params, func(p Param) bool { return p.Name == paramDateRange })
	if preset < 0 {
		return nil
	}
	if err := p.resolvePeriod(w, given.has(preset)); err != nil {
		return err
	}
	p.noteLeapDay()
	return nil
}

// readPair decodes one name=value and finds its parameter.
func readPair(params []Param, pair string) (index int, value string, err error) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := unescape(rawName)
	if err != nil {
		return 0, "", invalid("a parameter's name %v", err)
	}
	index = slices.IndexFunc(params, func(p Param) bool { return p.Name == name })
	if index < 0 {
		return 0, "", &InputError{Code: CodeUnsupportedParameter, Message: unsupported(params, name)}
	}
	value, err = unescape(rawValue)
	if err != nil {
		return 0, "", invalid("%s %v", name, err)
	}
	if value == "" {
		return 0, "", invalid("%s is empty: leave it out, or give it a value", name)
	}
	return index, value, nil
}

func unsupported(params []Param, name string) string {
	isMovers := slices.ContainsFunc(params, func(p Param) bool { return p.Name == paramMinClicks })
	if name == paramFilters && isMovers {
		return "this endpoint does not accept filters; to compare a segment, request /queries or /pages twice with explicit ranges"
	}
	const longest = 64
	if utf8.RuneCountInString(name) > longest {
		name = string([]rune(name)[:longest]) + "…"
	}
	message := "this endpoint has no parameter " + strconv.Quote(name)
	if len(params) == 0 {
		return message + "; it takes none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return message + "; it takes " + strings.Join(names, ", ")
}

// The codes of an InputError (spec: Errors).
const (
	CodeValidation           = "VALIDATION_ERROR"
	CodeUnsupportedParameter = "UNSUPPORTED_PARAMETER"
	CodeDateRangeTooOld      = "DATE_RANGE_TOO_OLD"
)

// An InputError is an invalid request. Its message names the parameter and the reason, for the client to read.
type InputError struct {
	Code    string
	Message string
}

func (e *InputError) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &InputError{Code: CodeValidation, Message: fmt.Sprintf(format, args...)}
}

// unescape decodes a name or value of a query string. It is strict: a value that a lenient parser repairs would be answered
// under a label that the client did not ask for.
func unescape(s string) (string, error) {
	s, err := url.QueryUnescape(s)
	if err != nil {
		return "", errors.New("has a broken percent escape")
	}
	return s, checkText(s)
}

// UnescapePathSegment decodes a percent-encoded path segment, as strictly.
func UnescapePathSegment(s string) (string, error) {
	s, err := url.PathUnescape(s)
	if err != nil {
		return "", invalid("the path has a broken percent escape")
	}
	if err := checkText(s); err != nil {
		return "", invalid("the path %v", err)
	}
	return s, nil
}

func checkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return errors.New("is not UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return errors.New("holds a NUL character")
	}
	return nil
}
