package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sara/archive/bucket"
	"sara/policy/redisconn"
)

// Database is the location of the database. Its String has no password.
type Database struct {
	written
	File string // of SQLite; empty for PostgreSQL
}

func (d *Database) parse(*kong.Tag) error {
	scheme, rest, _ := strings.Cut(d.text, ":")
	switch {
	case scheme == "sqlite" && rest != "":
		d.File = rest
		return nil
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return nil
	}
	shown := hidden // it may be another secret, such as a password alone
	if strings.Contains(d.text, "://") {
		shown = d.String()
	}
	return fmt.Errorf("%q is neither of the form sqlite:PATH nor postgres://USER:PASSWORD@HOST/DATABASE", shown)
}

// SQLite returns the location of a database in a file.
func SQLite(file string) Database { return Database{written: written{"sqlite:" + file}, File: file} }

// URL returns the location with its password.
func (d Database) URL() string { return d.text }

// String returns the location without its password.
func (d Database) String() string { return mask(d.text) }

// Redis is the location of a Redis. Its String has no password.
type Redis struct {
	written
	Setting string // the name of the setting in the environment
}

func (r *Redis) parse(tag *kong.Tag) error {
	r.Setting = tag.Get("setting")
	client, err := redisconn.Open(r.text, redisconn.StepTimeout)
	if err != nil {
		return err
	}
	return client.Close()
}

// IsSet reports whether there is a Redis at all.
func (r Redis) IsSet() bool { return r.text != "" }

// Open returns a client, nil without a Redis. It does not connect yet. step is the timeout of each dial, read and write. The caller
// closes the client.
func (r Redis) Open(step time.Duration) (redisconn.Client, error) {
	if !r.IsSet() {
		return nil, nil
	}
	client, err := redisconn.Open(r.text, step)
	if err != nil {
		return nil, Errorf(r.Setting, "%v", err)
	}
	return client, nil
}

// Sentinel reports whether Redis is found through a Sentinel.
func (r Redis) Sentinel() bool { return strings.Contains(r.text, "master_name=") }

// TLS reports whether the connection is encrypted.
func (r Redis) TLS() bool { return strings.HasPrefix(r.text, "rediss:") }

// String returns the location without user and password.
func (r Redis) String() string {
	if !r.IsSet() {
		return ""
	}
	return redisconn.Address(r.text)
}

// Bucket is the location of the archive. Its String has no secret.
type Bucket struct {
	written
	Folder string // of a local archive; empty for a store

	store bucket.Bucket // of a location that is not a folder
}

// parse does not open a folder, which would create it.
func (b *Bucket) parse(*kong.Tag) (err error) {
	if folder, ok := localFolder(b.text); ok {
		b.Folder = folder
		return nil
	}
	if b.store, err = bucket.Open(b.text); err != nil {
		return fmt.Errorf("%v: %w", b, err)
	}
	return nil
}

// localFolder returns the folder that a location names, if it names one.
func localFolder(location string) (path string, ok bool) {
	if !strings.Contains(location, "://") {
		return location, location != ""
	}
	u, err := url.Parse(location)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path == "" {
		return "", false
	}
	return u.Path, true
}

// LocalArchive returns the location of an archive in a folder.
func LocalArchive(folder string) Bucket { return Bucket{written: written{folder}, Folder: folder} }

// Open returns the bucket, and creates a folder that does not exist. It does not connect to a store.
func (b Bucket) Open() (bucket.Bucket, error) {
	if b.store != nil {
		return b.store, nil
	}
	return bucket.Open(b.Folder)
}

// String returns the location without what may be secret.
func (b Bucket) String() string {
	if b.Folder != "" {
		return b.Folder
	}
	return mask(b.text)
}

// hidden stands for a text that cannot be masked because it is not a URL.
const hidden = "[not shown, since it may hold a password]"

// mask returns a URL without what may be secret in it: passwords in the user part, in parameters, and in URLs in parameters.
func mask(text string) string {
	if !strings.ContainsAny(text, "@=? ") {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return hidden
	}
	query, malformed := url.ParseQuery(u.RawQuery)
	for name, values := range query {
		if isSecret(name) {
			query.Set(name, "xxxxx")
			continue
		}
		for i := range values {
			values[i] = mask(values[i]) // such as an endpoint
		}
	}
	if masked := query.Encode(); malformed != nil || masked != u.Query().Encode() { // otherwise keep the original escaping
		u.RawQuery = masked
	}
	return u.Redacted()
}

// isSecret reports whether a parameter of that name may hold a secret.
func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"pass", "secret", "token", "key"}, func(word string) bool { return strings.Contains(name, word) })
}
