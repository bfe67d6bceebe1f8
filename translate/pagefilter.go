package translate

import (
	"fmt"
	"strings"
)

// encodePage percent-encodes what is not in a URL as the upstream reports it, so that /blog/ä matches /blog/%C3%A4. What is encoded
// already stays.
func encodePage(value string) string {
	const hex = "0123456789ABCDEF"
	var encoded strings.Builder
	for i := range len(value) {
		if c := value[i]; c > ' ' && c < 0x7f {
			encoded.WriteByte(c)
		} else {
			encoded.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return encoded.String()
}

// formNotes returns a note for each filter that can match nothing because of its form.
func formNotes(filters []Filter) (notes []string) {
	for i, f := range filters {
		operator, negated := strings.CutPrefix(f.Operator, "not_")
		reason := ""
		switch {
		case f.Dimension == "page" && operator == "equals":
			reason = pageProblem(f.Value)
		case f.Dimension == "country" && operator == "contains" && !isPartOfCountry(f.Value):
			reason = "a country is three letters, as in ISO 3166-1 alpha-3"
		default:
			continue
		}
		if reason == "" {
			continue
		}
		effect := "matches nothing"
		if negated {
			effect = "excludes nothing"
		}
		notes = append(notes, fmt.Sprintf("filters[%d] %s: %s.", i, effect, reason))
	}
	if deviceCondition(filters).Operator == noDevice {
		notes = append(notes, "The filters of the device leave none of desktop, mobile and tablet.")
	}
	return notes
}

// pageProblem returns why no page can be equal to a value, empty if one can.
func pageProblem(value string) string {
	scheme, rest, ok := strings.Cut(value, "://")
	switch {
	case !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return "a page is a full URL, such as https://www.example.com/blog/; use contains for a part of it"
	case !strings.Contains(rest, "/"):
		return "a page has a path, which is / for the home page, such as https://www.example.com/"
	}
	return ""
}

func isPartOfCountry(value string) bool {
	return len(value) <= 3 && isASCII(value) && strings.Trim(strings.ToLower(value), "abcdefghijklmnopqrstuvwxyz") == ""
}
