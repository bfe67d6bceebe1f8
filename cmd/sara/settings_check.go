package main

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"sara/policy"
)

// secretKey returns the key that encrypts credentials, nil when there is none. No error repeats what was given.
func (s storeSettings) secretKey() ([]byte, error) {
	const size = 32
	if s.SecretKey == "" {
		return nil, nil
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s.SecretKey))
	switch {
	case err != nil:
		return nil, wrongSetting("SARA_SECRET_KEY", "it is not base64; take the output of: openssl rand -base64 32")
	case len(key) != size:
		return nil, wrongSetting("SARA_SECRET_KEY", "it has %d bytes and needs %d; take the output of: openssl rand -base64 32", len(key), size)
	}
	return key, nil
}

// check looks at the form of the addresses.
func (s storeSettings) check() error {
	client, err := s.redis()
	if client != nil {
		err = client.Close()
	}
	return errors.Join(s.checkDatabaseURL(), err)
}

func (s storeSettings) checkDatabaseURL() error {
	scheme, rest, _ := strings.Cut(s.DatabaseURL, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		return nil
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return nil
	}
	return wrongSetting("SARA_DATABASE_URL", "%q is neither of the form sqlite:PATH nor postgres://USER:PASSWORD@HOST/DATABASE",
		maskURL(s.DatabaseURL))
}

func (s replicaSettings) replicas() (int, error) {
	const most = 10_000
	n, err := strconv.Atoi(s.Replicas)
	if err != nil || n < 1 || n > most {
		return 0, wrongSetting("SARA_REPLICAS", "%q is not a number of 1 to %d, such as 2: how many processes serve together", s.Replicas, most)
	}
	return n, nil
}

// cacheBytes returns the bound of the response cache.
func (s cacheSettings) cacheBytes() (int64, error) {
	const least, most = 1 << 20, 1 << 40
	n, err := humanize.ParseBytes(s.CacheBytes)
	if err != nil || n < least || n > most {
		return 0, wrongSetting("SARA_CACHE_BYTES", "%q is not a size of 1MiB to 1TiB, such as 256MiB or a number of bytes", s.CacheBytes)
	}
	return int64(n), nil
}

func (s upstreamSettings) check() []error {
	return []error{
		checkURL("SARA_UPSTREAM_URL", s.UpstreamURL, "https://searchconsole.googleapis.com"),
		checkURL("SARA_OAUTH_TOKEN_URL", s.OAuthTokenURL, "https://oauth2.googleapis.com/token"),
	}
}

// plans returns the plan table.
func (s planSettings) plans() (policy.Plans, error) {
	if s.PlansFile == "" {
		return policy.DefaultPlans(), nil
	}
	file, err := os.Open(s.PlansFile)
	if err != nil {
		return nil, wrongSetting("SARA_PLANS_FILE", "%v; name a YAML file like plans: {pro: {api_access: true, keys: 3, …}}, or leave it out for the built-in plans", err)
	}
	plans, err := policy.ReadPlans(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, wrongSetting("SARA_PLANS_FILE", "%s: %v", s.PlansFile, err)
	}
	return plans, nil
}

func (s keySettings) check() error {
	const longest, allowed = 20, "abcdefghijklmnopqrstuvwxyz0123456789"
	if s.KeyPrefix == "" || len(s.KeyPrefix) > longest || strings.Trim(s.KeyPrefix, allowed) != "" {
		return wrongSetting("SARA_KEY_PREFIX", "%q is not 1 to %d lower-case letters and digits, such as sara", s.KeyPrefix, longest)
	}
	return nil
}

func (s addressSettings) check() []error {
	errs := []error{checkAddress("SARA_LISTEN", s.Listen, "127.0.0.1:8080")}
	if s.BaseURL == "" {
		return errs
	}
	err := checkURL("SARA_BASE_URL", s.BaseURL, "https://api.example.com")
	if err == nil && strings.HasSuffix(s.BaseURL, "/") {
		err = wrongSetting("SARA_BASE_URL", "%q ends with a slash, which the paths of the API begin with; leave it out", s.BaseURL)
	}
	return append(errs, err)
}

// baseURL returns the address by which clients reach what listens on address.
func (s addressSettings) baseURL(address string) string {
	if s.BaseURL != "" {
		return s.BaseURL
	}
	return localURL(address)
}

// localURL returns the URL of what listens on address on this machine.
func localURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

func (s adminSettings) check() error {
	return checkAddress("SARA_ADMIN_LISTEN", s.AdminListen, "127.0.0.1:9090")
}

// checkListeners reports two listeners that would take the same port. What is wrong with an address by itself is told elsewhere.
func (c *serveCommand) checkListeners() error {
	host, port, err := net.SplitHostPort(c.Listen)
	adminHost, adminPort, adminErr := net.SplitHostPort(c.AdminListen)
	number, _ := strconv.Atoi(port)
	adminNumber, _ := strconv.Atoi(adminPort)
	if err != nil || adminErr != nil || number == 0 || number != adminNumber || !overlap(host, adminHost) {
		return nil
	}
	return wrongSetting("SARA_ADMIN_LISTEN", "%q takes the port of SARA_LISTEN, %q; give it another, such as %s",
		c.AdminListen, c.Listen, net.JoinHostPort(adminHost, strconv.Itoa(number%65535+1)))
}

// overlap reports whether listeners on the two hosts cannot have the same port.
func overlap(a, b string) bool {
	for _, host := range []*string{&a, &b} {
		if strings.EqualFold(*host, "localhost") {
			*host = "127.0.0.1"
		}
		if ip, err := netip.ParseAddr(*host); *host == "" || err == nil && ip.IsUnspecified() {
			return true // also that of IPv4, which Go opens for IPv6 too
		}
	}
	return strings.EqualFold(a, b)
}

// aloneNote warns of several processes that cannot share their counts, empty if there is nothing to warn of.
func (s storeSettings) aloneNote(replicas int) string {
	if s.RedisURL != "" || replicas < 2 {
		return ""
	}
	return "SARA_REPLICAS is " + strconv.Itoa(replicas) + ", but without SARA_REDIS_URL each process counts for itself and gives out all of " +
		"every limit: set SARA_REDIS_URL, the same for all of them, or SARA_REPLICAS to 1"
}

func (s edgeSettings) check() []error {
	errs := []error{s.adminSettings.check()}
	if s.DocsURL != "" {
		errs = append(errs, checkURL("SARA_DOCS_URL", s.DocsURL, "https://example.com/docs"))
	}
	if name := s.TrustedProxyHeader; !isHeaderName(name) && name != "" {
		errs = append(errs, wrongSetting("SARA_TRUSTED_PROXY_HEADER", "%q is not the name of a header, such as X-Forwarded-For", name))
	}
	_, err := s.shutdownDelay()
	return append(errs, err)
}

func (s edgeSettings) shutdownDelay() (time.Duration, error) {
	delay, err := time.ParseDuration(s.ShutdownDelay)
	if err != nil || delay < 0 || delay > time.Hour {
		return 0, wrongSetting("SARA_SHUTDOWN_DELAY", "%q is not a time of 0s to 1h, such as 10s", s.ShutdownDelay)
	}
	return delay, nil
}

func isHeaderName(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, allowed) == ""
}

func (s logSettings) check() []error {
	var errs []error
	if _, err := s.level(); err != nil {
		errs = append(errs, err)
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		errs = append(errs, wrongSetting("SARA_LOG_FORMAT", "%q is neither text nor json", s.LogFormat))
	}
	if _, err := s.accessSample(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func (s logSettings) accessSample() (float64, error) {
	share, err := strconv.ParseFloat(s.AccessLogSample, 64)
	if err != nil || !(share >= 0 && share <= 1) { // which is not the same for what is no number
		return 0, wrongSetting("SARA_ACCESS_LOG_SAMPLE", "%q is not a share of 0 to 1, such as 0.1 for one line of ten", s.AccessLogSample)
	}
	return share, nil
}

func (s logSettings) level() (slog.Level, error) {
	switch s.LogLevel {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, wrongSetting("SARA_LOG_LEVEL", "%q is none of debug, info, warn, error", s.LogLevel)
}

func checkAddress(name, address, example string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || strings.ContainsAny(host, " /@") {
		return wrongSetting(name, "%q is not of the form HOST:PORT, such as %s", maskURL(address), example)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 0 || number > 65535 {
		return wrongSetting(name, "the port of %q is not a number of 0 to 65535; write it like %s", address, example)
	}
	return nil
}

func checkURL(name, text, example string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return wrongSetting(name, "%q is not an absolute http or https URL, such as %s", maskURL(text), example)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return wrongSetting(name, "%q has more than a scheme, a host and a path; write it like %s", maskURL(text), example)
	}
	return nil
}

// isSecret reports whether a parameter of that name may hold a secret.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "secret", "token", "key"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// maskURL returns a URL without what may be secret in it: a password, wherever it stands.
func maskURL(text string) string {
	if !strings.ContainsAny(text, "@=? ") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return "[not shown, since it may hold a password]"
	}
	query, malformed := url.ParseQuery(u.RawQuery)
	for name, values := range query {
		if isSecret(name) {
			query.Set(name, "xxxxx")
			continue
		}
		for i := range values {
			values[i] = maskURL(values[i]) // such as an endpoint
		}
	}
	if masked := query.Encode(); malformed != nil || masked != u.Query().Encode() { // which would only escape what is fine
		u.RawQuery = masked
	}
	return u.Redacted()
}
