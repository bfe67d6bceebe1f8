package policy

import (
	"slices"
	"testing"
)

func TestScopeNamesAndParseScopesAreInverse(t *testing.T) {
	if names := AllScopes.Names(); !slices.Equal(names, []string{"properties:read", "performance:read", "indexing:read", "config:read"}) {
		t.Errorf("all scopes are %q", names)
	}
	for set := Scopes(0); set <= AllScopes; set++ {
		names := set.Names()
		slices.Reverse(names)
		if got, err := ParseScopes(names); err != nil || got != set {
			t.Errorf("%q: %v, %v, want %v", names, got, err, set)
		}
	}
	for name, scope := range map[string]Scopes{"properties:read": PropertiesRead, "performance:read": PerformanceRead,
		"indexing:read": IndexingRead, "config:read": ConfigRead} {
		if got, err := ParseScopes([]string{name}); err != nil || got != scope {
			t.Errorf("%s: %v, %v, want %v", name, got, err, scope)
		}
	}
}

func TestParseScopesRejectsUnknownAndRepeatedNames(t *testing.T) {
	const all = ": use properties:read, performance:read, indexing:read, config:read"
	f := func(message string, names ...string) {
		t.Helper()
		if got, err := ParseScopes(names); err == nil || err.Error() != message || got != 0 {
			t.Errorf("%q: %v, %v, want %s", names, got, err, message)
		}
	}
	f(`unknown scope ""`+all, "")
	f(`unknown scope "config:write"`+all, "config:write")
	f(`unknown scope "Config:read"`+all, "Config:read")
	f(`unknown scope " config:read"`+all, "properties:read", " config:read")
	f(`unknown scope "properties:read,config:read"`+all, "properties:read,config:read")
	f("scope config:read is given twice", "config:read", "properties:read", "config:read")
}
