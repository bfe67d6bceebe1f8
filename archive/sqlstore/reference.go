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

// candidate is something that a reference may match: its levels, from the outermost down to itself.
type candidate []level

func (c candidate) id() string { return c[len(c)-1].id }

func (c candidate) fullName() string {
	names := make([]string, len(c))
	for i, l := range c {
		names[i] = l.name
	}
	return strings.Join(names, "/")
}

// matches reports whether the parts of a reference, each an id or a name, are the innermost levels of c.
func (c candidate) matches(parts []string) bool {
	if len(parts) > len(c) {
		return false
	}
	for i, part := range parts {
		if l := c[len(c)-len(parts)+i]; part != l.id && part != l.name {
			return false
		}
	}
	return true
}

// lastPart returns the last part of a reference: NAME of ACCOUNT/NAME.
func lastPart(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// pick returns the ID of the only candidate that matches the reference or, if several match, of the only preferred one. prefer may be
// nil.
func pick(kind, reference string, candidates []candidate, prefer func(candidate) bool) (string, error) {
	parts := strings.Split(reference, "/")
	var matching, preferred []candidate
	for _, c := range candidates {
		if !c.matches(parts) {
			continue
		}
		matching = append(matching, c)
		if prefer != nil && prefer(c) {
			preferred = append(preferred, c)
		}
	}
	if len(preferred) == 1 {
		return preferred[0].id(), nil
	}
	switch len(matching) {
	case 0:
		return "", &NotFoundError{kind, reference}
	case 1:
		return matching[0].id(), nil
	}
	ambiguous := &AmbiguousError{Kind: kind, Reference: reference}
	for _, c := range matching {
		ambiguous.Candidates = append(ambiguous.Candidates, Candidate{c.id(), c.fullName()})
	}
	return "", ambiguous
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
