package translate

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// An Params is what one request asks, its parameters read and bounded. Which fields mean something depends on the parameters
// of its endpoint.
type Params struct {
	Period          Period
	Filters         []Filter // ANDed; empty for none
	Limit, Offset   int
	Order           Order
	Compare         bool   // compare=previous_period
	MinClicks       int    // noise floor of the movers
	IncludeArchived bool   // archived properties too
	From, To        *Date  // start_date and end_date as given; nil when absent
	IncludeTrend    bool   // the daily course of the indexing, too
	TrendDays       int    // how far back it goes
	Bucket          Bucket // of the inspected URLs to list; 0 for all
	CoverageState   string // the label of those to list, see FoldCoverage; empty for all
	SitemapPath     string // the sitemap of those to list; empty for all
	Contains        string // what is part of those to list, whatever the case; empty for all
	Notes           []string

	preset      string
	presetGiven bool
}

// Span returns every day that the answer needs: the period, and the one before it when the answer compares.
func (a *Params) Span() DateRange {
	if !a.Compare {
		return a.Period.DateRange
	}
	return DateRange{Start: a.Period.Previous().Start, End: a.Period.End}
}

// Kind is the type of a parameter's value, as OpenAPI has it.
type Kind string

// The kinds of parameters.
const (
	KindInteger Kind = "integer"
	KindBoolean Kind = "boolean"
	KindString  Kind = "string"
	KindDate    Kind = "date"    // a string, YYYY-MM-DD
	KindFilters Kind = "filters" // a string that holds a JSON array of filters
)

// A Param is one query parameter of an endpoint: how it is read, and how it is described.
type Param struct {
	Name        string
	Kind        Kind
	Description string
	Default     string   // as it would stand in a URL; empty for none
	Choices     []string // every value that is allowed; nil for any
	Min, Max    int      // of an integer without Choices; Max 0 for MaxInteger
	MaxLength   int      // of a text, in characters; 0 for no bound of its own

	read func(*Params, string) error // keeps nothing of the string
}

// maxText is as long as a URL may be in a sitemap.
const maxText = 2048

// MaxInteger bounds integers that the API itself leaves unbounded, so that sums of them cannot overflow.
const MaxInteger = 1_000_000_000

func integer(name string, def, low, high int, description string, set func(*Params, int)) Param {
	bound := high
	if high == 0 {
		bound = MaxInteger
	}
	return Param{Name: name, Kind: KindInteger, Description: description, Default: strconv.Itoa(def), Min: low, Max: high,
		read: func(a *Params, s string) error {
			n, err := strconv.ParseUint(s, 10, 31)
			if err != nil || int(n) < low || int(n) > bound {
				return invalid("%s %.40q is not an integer from %d to %d", name, s, low, bound)
			}
			set(a, int(n))
			return nil
		}}
}

func boolean(name, description string, set func(*Params, bool)) Param {
	return choice(name, "false", []string{"true", "false"}, description, func(a *Params, s string) { set(a, s == "true") }).as(KindBoolean)
}

func choice(name, def string, choices []string, description string, set func(*Params, string)) Param {
	return Param{Name: name, Kind: KindString, Description: description, Default: def, Choices: choices,
		read: func(a *Params, s string) error {
			i := slices.Index(choices, s)
			if i < 0 {
				return invalid("%s %.40q is none of %s", name, s, strings.Join(choices, ", "))
			}
			set(a, choices[i])
			return nil
		}}
}

// text is any text of up to maxText characters.
func text(name, description string, set func(*Params, string)) Param {
	return Param{Name: name, Kind: KindString, Description: description, MaxLength: maxText, read: func(a *Params, s string) error {
		if utf8.RuneCountInString(s) > maxText {
			return invalid("%s is longer than %d characters", name, maxText)
		}
		set(a, strings.Clone(s))
		return nil
	}}
}

func (p Param) as(kind Kind) Param {
	p.Kind = kind
	return p
}

func date(name, description string, set func(*Params, Date)) Param {
	return Param{Name: name, Kind: KindDate, Description: description, read: func(a *Params, s string) error {
		d, err := ParseDate(s)
		if err != nil {
			return invalid("%s: %v", name, err)
		}
		set(a, d)
		return nil
	}}
}

// Parse reads a raw query string as the parameters of the endpoint; the Window makes dates of presets. Nothing in the string is
// passed over: an unknown name, a name given twice, an empty value, a broken escape, a NUL or broken UTF-8 is an error, so
// that no answer is read under a label that it does not have. The bytes stay the caller's: neither the Ask nor an error
// keeps any of them.
func Parse(endpoint Endpoint, rawQuery []byte, w Window) (*Params, error) {
	params := endpoint.Params
	ask := &Params{Compare: endpoint.Compares}
	query := unsafe.String(unsafe.SliceData(rawQuery), len(rawQuery)) // until Parse returns
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
		if err := params[i].read(ask, value); err != nil {
			return nil, err
		}
	}
	if err := ask.complete(params, given, w); err != nil {
		return nil, err
	}
	return ask, nil
}

// An indexSet is a set of places in a list of at most 64.
type indexSet uint64

func (s indexSet) has(i int) bool { return s&(1<<i) != 0 }
func (s *indexSet) add(i int)     { *s |= 1 << i }

// complete fills in the defaults and resolves what depends on more than one parameter.
func (a *Params) complete(params []Param, given indexSet, w Window) error {
	hasPeriod := false
	for i := range params {
		p := &params[i]
		if p.Name == paramDateRange {
			hasPeriod, a.presetGiven = true, given.has(i)
		}
		if given.has(i) || p.Default == "" {
			continue
		}
		if err := p.read(a, p.Default); err != nil {
			return err
		}
	}
	if hasPeriod {
		return a.resolvePeriod(w)
	}
	if a.From != nil && a.To != nil && *a.From > *a.To {
		return invalid("start_date %s is after end_date %s", *a.From, *a.To)
	}
	return nil
}

// readPair splits and decodes one name=value and finds its parameter.
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
	if name == paramFilters {
		return "this endpoint takes no filters; to compare a segment, ask /queries or /pages twice with explicit ranges"
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
