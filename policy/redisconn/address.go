package redisconn

import (
	"errors"
	"net/url"
	"strings"
)

// help ends the errors about a Redis URL.
const help = "write redis://HOST:6379, or rediss://:PASSWORD@HOST:6379 with TLS and a password"

// Address returns the parts of a Redis URL that are not secret: scheme, host and port, or the path of a socket. A
// malformed URL is not shown at all, since any part of it may belong to a password.
func Address(address string) string {
	parsed, err := parse(address)
	if err != nil {
		return "[not shown, since it may hold a password]"
	}
	if parsed.Scheme == "unix" {
		return "unix://" + parsed.Path
	}
	return parsed.Scheme + "://" + parsed.Host
}

// parse rejects URLs that name no server, for which go-redis would use localhost. Its errors do not quote the URL.
func parse(address string) (*url.URL, error) {
	parsed, err := url.Parse(address)
	_, afterScheme, absolute := strings.Cut(address, "://")
	switch {
	case err != nil || !absolute || parsed.Opaque != "":
		return nil, errors.New("the Redis URL is not a URL: " + help)
	case parsed.Scheme != "redis" && parsed.Scheme != "rediss" && parsed.Scheme != "unix":
		return nil, errors.New("the Redis URL begins with neither redis:// nor rediss://: " + help)
	case strings.Count(afterScheme, "@") > 1 || strings.Contains(afterScheme, "@") && parsed.User == nil || parsed.Fragment != "":
		return nil, errors.New("the Redis URL has an @ or a # out of place: " + help + ", with special characters percent-encoded")
	case parsed.Scheme == "unix" && (parsed.Host != "" || parsed.Path == ""):
		return nil, errors.New("the Redis URL names no socket: write unix:///PATH, or unix://:PASSWORD@/PATH with a password")
	case parsed.Scheme != "unix" && parsed.Hostname() == "":
		return nil, errors.New("the Redis URL names no host: " + help)
	}
	return parsed, nil
}
