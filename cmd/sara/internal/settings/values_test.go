package settings

import (
	"testing"

	"github.com/alecthomas/kong"
)

// Each value is accepted up to its bounds, and refused right beyond them.
func TestValuesAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of        func() value
		good, bad []string
	}{
		"size":  {func() value { return new(Size) }, []string{"1MiB", "1048576", "1TiB"}, []string{"1048575", "1099511627777", "many", "-1MiB"}},
		"delay": {func() value { return new(Delay) }, []string{"0s", "1h"}, []string{"-1ns", "1h0m0.000000001s", "10"}},
		"offset": {func() value { return new(Offset) }, []string{"100000h", "-100000h"},
			[]string{"100000h0m0.000000001s", "-100000h0m0.000000001s", "10"}},
		"fraction": {func() value { return new(Fraction) }, []string{"0", "1"}, []string{"-0.001", "1.001", "NaN", "half"}},
		"address":  {func() value { return new(HostPort) }, []string{":0", "[::1]:65535"}, []string{":-1", ":65536", "localhost", "a/b:1"}},
		"header": {func() value { return new(HeaderName) }, []string{"X-Forwarded-For"},
			[]string{"", "X Y", "Authorization", "Proxy-Authorization", "Cookie", "Forwarded"}},
		"origins": {func() value { return new(Origins) }, []string{"http://a.example:1", "http://a.example:65535", "*"},
			[]string{"http://a.example:0", "http://a.example:65536", "http://a.example:", "http://a.example?q", "http://a.example?q=1", "*,http://a.example"}},
	} {
		for _, text := range c.good {
			v := c.of()
			v.set(text)
			if err := v.parse(&kong.Tag{}); err != nil {
				t.Errorf("%s %q: %v", name, text, err)
			}
		}
		for _, text := range c.bad {
			v := c.of()
			v.set(text)
			if v.parse(&kong.Tag{}) == nil {
				t.Errorf("%s %q is accepted", name, text)
			}
		}
	}
}
