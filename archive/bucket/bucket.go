// Package bucket keeps small objects, up to some megabytes each, in a local folder or in a store that speaks S3, behind one
// interface whose writes are conditional: an object is replaced only if it still is what the writer has read. That is all
// that is needed for several processes to change the same objects without losing a change, and there is no other lock.
//
// A write is there completely or not at all, whatever dies in its midst. Reads and listings see every write that has ended.
// All methods are safe for concurrent use, by goroutines and by processes.
//
// What is not here: streaming, ranges, and the meaning of the objects.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
)

// Bucket is a set of named objects. Names are slash-separated paths without a leading slash; no part of one starts with a
// dot. Any other name is an error. Errors carry the name, and never a credential.
type Bucket interface {
	// Get returns an object and its revision. The caller may keep and change the data. It is ErrNotFound when there is no
	// such object.
	Get(ctx context.Context, name string) (data []byte, revision string, err error)

	// Put writes an object if it still has the revision, or if it does not exist, for an empty one, and returns its new
	// revision. It is ErrChanged otherwise. After another error the object may have been written or not.
	Put(ctx context.Context, name string, data []byte, revision string) (string, error)

	// List returns the objects whose names start with the prefix, in ascending order of their names.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Delete removes an object if it still has the revision. It is ErrChanged otherwise, also when there is none.
	Delete(ctx context.Context, name, revision string) error
}

// Entry is one object of a listing.
type Entry struct {
	Name, Revision string
	Size           int64
}

// What callers tell apart with errors.Is.
var (
	ErrNotFound = errors.New("there is no such object")
	ErrChanged  = errors.New("the object has been changed since it was read")
)

// MaxObject is the largest object that is read or written, in bytes.
const MaxObject = 256 << 20

// Open returns the bucket that a URL names: file:///folder or just the path of a folder, which is made when it does not
// exist; or s3://bucket/prefix?endpoint=https://host:port&region=name, whose endpoint and region default to Amazon's and
// whose credentials come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or MINIO_ROOT_USER and
// MINIO_ROOT_PASSWORD), from the shared credentials file, or from the machine's role. Open does not speak to an S3 store:
// Check does.
func Open(location string) (Bucket, error) {
	scheme, _, isURL := strings.Cut(location, "://")
	if !isURL {
		return openFolder(location)
	}
	switch scheme {
	case "file":
		return openFileURL(location)
	case "s3":
		return openS3URL(location)
	}
	return nil, fmt.Errorf("open bucket: the scheme %q is none of file, s3", scheme)
}

func openFileURL(location string) (Bucket, error) {
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return nil, errors.New("open bucket: the URL cannot be read") // its text may hold a credential
	case u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("open bucket: file://%s is a host: a folder is file:///folder, with three slashes", u.Host)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("open bucket: file://%s takes nothing but a path", u.Path)
	}
	return openFolder(u.Path)
}

// Check writes, replaces, lists and removes a small object named probe, and reports what the bucket cannot do: that it is
// out of reach, that the credentials do not allow it, or that it writes without regard to the condition, in which case
// changes would be lost.
func Check(ctx context.Context, b Bucket, probe string) error {
	revision, err := b.Put(ctx, probe, []byte("probe 1"), "")
	if errors.Is(err, ErrChanged) {
		// Left behind by a check that was cut short.
		if _, revision, err = b.Get(ctx, probe); err == nil {
			revision, err = b.Put(ctx, probe, []byte("probe 1"), revision)
		}
	}
	if err != nil {
		return fmt.Errorf("check bucket: %w", err)
	}
	if _, err := b.Put(ctx, probe, []byte("probe 2"), ""); !errors.Is(err, ErrChanged) {
		return fmt.Errorf("check bucket: the store writes over an object that must not exist (%v)", err)
	}
	second, err := b.Put(ctx, probe, []byte("probe 2"), revision)
	if err != nil {
		return fmt.Errorf("check bucket: %w", err)
	}
	if _, err := b.Put(ctx, probe, []byte("probe 3"), revision); !errors.Is(err, ErrChanged) {
		return fmt.Errorf("check bucket: the store writes over an object that has changed (%v)", err)
	}
	if _, err := b.List(ctx, probe); err != nil {
		return fmt.Errorf("check bucket: %w", err)
	}
	if err := b.Delete(ctx, probe, second); err != nil {
		return fmt.Errorf("check bucket: %w", err)
	}
	return nil
}

// checkName refuses what is not a name of an object, before it becomes part of a path or a request.
func checkName(name string) error {
	const longest = 512
	if !fs.ValidPath(name) || name == "." || len(name) > longest || strings.ContainsAny(name, "\\\x00\n\r") ||
		name[0] == '.' || strings.Contains(name, "/.") {
		return fmt.Errorf("%.80q is not the name of an object", name)
	}
	return nil
}

func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return checkName(strings.TrimSuffix(prefix, "/"))
}

// checkObject refuses what Put cannot write.
func checkObject(name string, data []byte) error {
	if len(data) > MaxObject {
		return fmt.Errorf("it has %d bytes: at most %d are allowed", len(data), MaxObject)
	}
	return checkName(name)
}

// attempt wraps an error with what was tried.
func attempt(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s object %q: %w", verb, name, err)
}
