package settings

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
)

// A Setting is what a Loader must know about the settings of other commands.
type Setting struct {
	Flag    string // its name on the command line
	Default string
	Secret  bool // it may hold a secret
}

// IsSettingField reports whether the flag of a field is a setting.
func IsSettingField(field reflect.StructField) bool { return field.Tag.Get("type") == settingType }

// OfField returns the setting of a field, as kong names it.
func OfField(field reflect.StructField) Setting {
	_, secret := field.Tag.Lookup(secretTag)
	s := Setting{Flag: field.Tag.Get("name"), Default: field.Tag.Get("default"), Secret: secret}
	if s.Flag == "" {
		s.Flag = flagName(field.Name)
	}
	return s
}

// flagName turns the name of a field, such as BaseURL, into that of a flag, such as base-url.
func flagName(field string) string {
	var name strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		beginsWord := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if beginsWord {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// Below returns the settings of a command and of those below.
func Below(node *kong.Node) (found []Setting) {
	for _, flag := range node.Flags {
		if IsSetting(flag.Value) {
			found = append(found, Setting{Flag: flag.Name, Default: flag.Default, Secret: flag.Tag.Has(secretTag)})
		}
	}
	for _, child := range node.Children {
		found = append(found, Below(child)...)
	}
	return found
}
