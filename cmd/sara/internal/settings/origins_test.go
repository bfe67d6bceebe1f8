package settings

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Origins are kept in the form in which browsers send them.
func TestOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"*":                       "*",
		"https://app.example.com": "https://app.example.com",
		"HTTPS://App.Example.com:443 , http://localhost:5173": "https://app.example.com http://localhost:5173",
		"http://a.example:80,http://a.example":                "http://a.example",
		"https://a.example:80":                                "https://a.example:80",
		"http://a.example:443":                                "http://a.example:443",
		"http://[::1]:8080,http://[::1]:80":                   "http://[::1]:8080 http://[::1]",
		"chrome-extension://abcdefgh":                         "chrome-extension://abcdefgh",
	} {
		o := Origins{written: written{text}}
		if err := o.parse(new(kong.Tag)); err != nil || strings.Join(o.List, " ") != want {
			t.Errorf("%q: %q, %v", text, o.List, err)
		}
	}
}
