package settings

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Origins are the origins of web pages, separated by commas, or * for every origin.
type Origins struct {
	written
	List []string // as browsers write them: lower-case, without the default port
}

const anyOrigin = "*"

func (o *Origins) parse(tag *kong.Tag) error {
	o.List = nil
	for text := range strings.SplitSeq(o.text, ",") {
		origin, err := parseOrigin(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("%w; write it like %s", err, example(tag))
		}
		if !slices.Contains(o.List, origin) {
			o.List = append(o.List, origin)
		}
	}
	if len(o.List) > 1 && slices.Contains(o.List, anyOrigin) {
		return fmt.Errorf("%q has %s beside other origins: it stands for all, so leave the others out", o.text, anyOrigin)
	}
	return nil
}

// parseOrigin returns an origin in the form in which browsers send it: scheme://host[:port].
func parseOrigin(text string) (string, error) {
	if text == anyOrigin {
		return text, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme == "" || u.Hostname() == "":
		return "", fmt.Errorf("%q is not an origin, scheme://host[:port]", mask(text))
	case u.User != nil || u.Path != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return "", fmt.Errorf("%q has more than a scheme, a host and a port", mask(text))
	case strings.ContainsFunc(u.Host, func(c rune) bool { return c <= ' ' || c > '~' || c == '*' }):
		return "", fmt.Errorf("the host of %q must be written out, in ASCII", text)
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Host), u.Port()
	if number, err := strconv.Atoi(port); strings.HasSuffix(host, ":") || port != "" && (err != nil || number < 1 || number > 65535) {
		return "", fmt.Errorf("the port of %q is not a number of 1 to 65535", text)
	}
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, net.JoinHostPort("", port))
	}
	return scheme + "://" + host, nil
}
