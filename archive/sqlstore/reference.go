package sqlstore

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// level is one step of a full name, such as the account in ACCOUNT/WORKSPACE. Names hold no slash.
type level struct{ id, name string }

// candidate is something that a reference may mean: its levels, the outermost first and itself last.
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

// lastPart returns what a reference calls the thing itself: NAME of ACCOUNT/NAME.
func lastPart(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// pick returns the id of the only candidate that the reference means. Among several, the only one that is preferred
// wins; prefer may be nil.
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

// Bounds of texts, in characters.
const (
	maxName        = 80
	maxLongName    = 200 // names that come from elsewhere: e-mail addresses of service accounts, titles of sites
	maxNote        = 2000
	maxPlanName    = 40
	maxScopeName   = 80
	maxSiteLength  = 2000
	maxEmailLength = 254
)

// checkFreeText refuses what has fewer than least or more than most characters, or cannot be stored as text.
func checkFreeText(field, value string, least, most int) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return &InputError{field, "it is not text in UTF-8"}
	}
	if n := utf8.RuneCountInString(value); n < least || n > most {
		return &InputError{field, fmt.Sprintf("it has %d characters: %d to %d are allowed", n, least, most)}
	}
	return nil
}

// checkText refuses what is empty, longer than most characters, surrounded by spaces, or not one line of text.
func checkText(field, value string, most int) error {
	if err := checkFreeText(field, value, 1, most); err != nil {
		return err
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return &InputError{field, fmt.Sprintf("%q holds control characters", value)}
	}
	if strings.TrimSpace(value) != value {
		return &InputError{field, fmt.Sprintf("%q begins or ends with a space", value)}
	}
	return nil
}

// checkName refuses what could not be told from a path of names or from an id.
func checkName(field, value string, most int) error {
	if err := checkText(field, value, most); err != nil {
		return err
	}
	if strings.Contains(value, "/") {
		return &InputError{field, fmt.Sprintf("%q holds a slash, which separates names", value)}
	}
	if uuid.Validate(value) == nil {
		return &InputError{field, fmt.Sprintf("%q looks like an id: choose a name", value)}
	}
	return nil
}

// cleanNote makes a note that comes from elsewhere fit to be stored: valid text of at most maxNote characters.
func cleanNote(note string) string {
	note = strings.ReplaceAll(strings.ToValidUTF8(note, "\uFFFD"), "\x00", "")
	if runes := []rune(note); len(runes) > maxNote {
		return string(runes[:maxNote])
	}
	return note
}
