package sqlstore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// level is one step of a full name, such as the account in ACCOUNT/WORKSPACE. Names contain no slash.
type level struct{ id, name string }

// levels are the full name of a thing, from the outermost level down to the thing itself.
type levels []level

func (l levels) fullName() string {
	names := make([]string, len(l))
	for i, at := range l {
		names[i] = at.name
	}
	return strings.Join(names, "/")
}

// matches reports whether the parts of a reference, each an id or a name, are the innermost ones of l.
func (l levels) matches(parts []string) bool {
	if len(parts) > len(l) {
		return false
	}
	for i, part := range parts {
		if at := l[len(l)-len(parts)+i]; part != at.id && part != at.name {
			return false
		}
	}
	return true
}

// lastPart returns the last part of a reference: NAME of ACCOUNT/NAME.
func lastPart(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// pick returns the only one of all that the reference matches or, if it matches several, the only preferred one.
func pick[T interface{ levels() levels }](kind, reference string, all []T, prefer func(T) bool) (none T, err error) {
	parts := strings.Split(reference, "/")
	var matching, preferred []T
	for _, v := range all {
		if !v.levels().matches(parts) {
			continue
		}
		matching = append(matching, v)
		if prefer(v) {
			preferred = append(preferred, v)
		}
	}
	if len(preferred) == 1 {
		return preferred[0], nil
	}
	switch len(matching) {
	case 0:
		return none, &NotFoundError{kind, reference}
	case 1:
		return matching[0], nil
	}
	ambiguous := &AmbiguousError{Kind: kind, Reference: reference}
	for _, v := range matching {
		l := v.levels()
		ambiguous.Candidates = append(ambiguous.Candidates, Candidate{l[len(l)-1].id, l.fullName()})
	}
	return none, ambiguous
}

// Limits of texts, in characters.
const (
	maxName        = 80
	maxLongName    = 200 // external names: e-mail addresses of service accounts, titles of sites
	maxNote        = 2000
	maxPlanName    = 40
	maxScopeName   = 80
	maxSiteLength  = 2000
	maxEmailLength = 254
)

// checkFreeText refuses a text with fewer than least or more than most characters, or that cannot be stored.
func checkFreeText(field, value string, least, most int) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return &InputError{field, "it must be text in UTF-8"}
	}
	if n := utf8.RuneCountInString(value); n < least || n > most {
		return &InputError{field, fmt.Sprintf("it has %d characters: %d to %d are allowed", n, least, most)}
	}
	return nil
}

// checkText refuses a text that is empty, longer than most characters, surrounded by spaces, or not a single line.
func checkText(field, value string, most int) error {
	if err := checkFreeText(field, value, 1, most); err != nil {
		return err
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return &InputError{field, fmt.Sprintf("%q contains control characters", value)}
	}
	if strings.TrimSpace(value) != value {
		return &InputError{field, fmt.Sprintf("%q begins or ends with a space", value)}
	}
	return nil
}

// checkName refuses a name that could be mistaken for a path of names or for an ID.
func checkName(field, value string, most int) error {
	if err := checkText(field, value, most); err != nil {
		return err
	}
	if strings.Contains(value, "/") {
		return &InputError{field, fmt.Sprintf("%q contains a slash, which separates names", value)}
	}
	if uuid.Validate(value) == nil {
		return &InputError{field, fmt.Sprintf("%q looks like an id: choose a name", value)}
	}
	return nil
}

// cleanNote makes an external note storable: valid text of at most maxNote characters.
func cleanNote(note string) string {
	note = strings.ReplaceAll(strings.ToValidUTF8(note, "\uFFFD"), "\x00", "")
	if runes := []rune(note); len(runes) > maxNote {
		return string(runes[:maxNote])
	}
	return note
}
