package policy

import (
	"fmt"
	"strings"
)

// Scopes is a set of permissions of a key.
type Scopes uint8

// The scopes (spec: Authentication 4).
const (
	PropertiesRead Scopes = 1 << iota
	PerformanceRead
	IndexingRead
	ConfigRead

	AllScopes = PropertiesRead | PerformanceRead | IndexingRead | ConfigRead
)

// name returns the name of a set of exactly one scope, and "" for any other set.
func (s Scopes) name() string {
	switch s {
	case PropertiesRead:
		return "properties:read"
	case PerformanceRead:
		return "performance:read"
	case IndexingRead:
		return "indexing:read"
	case ConfigRead:
		return "config:read"
	}
	return ""
}

// Names returns the names of the scopes in the set, in the order of declaration.
func (s Scopes) Names() []string {
	names := make([]string, 0, 4)
	for one := PropertiesRead; one <= ConfigRead; one <<= 1 {
		if s&one != 0 {
			names = append(names, one.name())
		}
	}
	return names
}

// ParseScopes returns the set of the named scopes. A name must not be repeated.
func ParseScopes(names []string) (Scopes, error) {
	var set Scopes
	for _, name := range names {
		one := PropertiesRead
		for one <= ConfigRead && one.name() != name {
			one <<= 1
		}
		switch {
		case one > ConfigRead:
			return 0, fmt.Errorf("unknown scope %q: use %s", name, strings.Join(AllScopes.Names(), ", "))
		case set&one != 0:
			return 0, fmt.Errorf("scope %s is given twice", name)
		}
		set |= one
	}
	return set, nil
}
