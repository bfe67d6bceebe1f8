// Package bucket keeps small objects, up to some megabytes each, in a local folder or in an S3 store. Both have one interface
// with conditional writes, for optimistic concurrency: a write succeeds only if the object still has the revision that the
// writer read. So several processes can change the same objects without losing a change, and need no other lock.
//
// A write is atomic: after a crash the object is either the old one or the new one. Reads and listings are consistent: they see
// every completed write. All methods are safe for concurrent use, by goroutines and by processes.
//
// There is no streaming and there are no range reads. The caller gives the objects their meaning.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"time"
)

// Bucket is a set of named objects. Names are slash-separated paths without a leading slash, and no segment starts with a dot.
// Any other name is an error. Errors contain the name, and never a credential.
type Bucket interface {
	// Get returns an object and its revision, ErrNotFound, or ErrUnusable. The data belongs to the caller.
	Get(ctx context.Context, name string) (data []byte, revision string, err error)

	// Put replaces an object if it still has the revision, or creates it if the revision is empty and no object exists. It
	// returns the new revision, also if the object holds the data already, and ErrChanged if it holds anything else. After any
	// other error the object may have or may not have been written.
	Put(ctx context.Context, name string, data []byte, revision string) (string, error)

	// List returns the objects whose names start with the prefix, ordered by name.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Delete removes an object if it still has the revision. Otherwise, or if there is none, it returns ErrChanged.
	Delete(ctx context.Context, name, revision string) error
}

// Entry is one object of a listing.
type Entry struct {
	Name, Revision string
	Size           int64
}

// Errors that callers check with errors.Is.
var (
	ErrNotFound = errors.New("there is no such object")
	ErrChanged  = errors.New("the object has been changed since it was read")
	// ErrUnusable concerns a single object, which Put cannot have written; the store itself works.
	ErrUnusable = errors.New("it is not an archive object")
)

// MaxObject is the size limit of an object, in bytes.
const MaxObject = 256 << 20

// Open returns the bucket at a location. It is file:///folder or the path of a folder, which is created if it does not exist,
// or s3://bucket/prefix?endpoint=https://host:port&region=name, where endpoint and region default to Amazon's.
//
// The credentials of S3 come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or MINIO_ROOT_USER and
// MINIO_ROOT_PASSWORD), from the shared credentials file, or from the machine's role. Open does not connect to an S3 store; Check
// does.
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
	return nil, fmt.Errorf("open bucket: the scheme %q is neither file nor s3", scheme)
}

func openFileURL(location string) (Bucket, error) {
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return nil, errors.New("open bucket: the URL is malformed") // its text may contain a credential
	case u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("open bucket: file://%s names a host: a folder is file:///folder, with three slashes", u.Host)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("open bucket: file://%s must have only a path", u.Path)
	}
	return openFolder(u.Path)
}

// Check writes, replaces, lists and removes a small object named probe. It fails if the bucket is unreachable, if the credentials
// do not permit an operation, or if the store ignores conditions, which would lose concurrent changes.
func Check(ctx context.Context, b Bucket, probe string) error {
	revision, err := b.Put(ctx, probe, []byte("probe 1"), "")
	if errors.Is(err, ErrChanged) {
		// Left by an interrupted check.
		if _, revision, err = b.Get(ctx, probe); err == nil {
			revision, err = b.Put(ctx, probe, []byte("probe 1"), revision)
		}
	}
	if err == nil {
		if err = checkConditions(ctx, b, probe, revision); err != nil {
			removeProbe(ctx, b, probe)
		}
	}
	if err != nil {
		return fmt.Errorf("check bucket: %w", err)
	}
	return nil
}

// checkConditions continues with the probe, which has a revision.
func checkConditions(ctx context.Context, b Bucket, probe, revision string) error {
	if err := mustRefuse(ctx, b, probe, ""); err != nil {
		return err
	}
	second, err := b.Put(ctx, probe, []byte("probe 2"), revision)
	if err != nil {
		return err
	}
	if err := mustRefuse(ctx, b, probe, revision); err != nil {
		return err
	}
	if _, err := b.List(ctx, probe); err != nil {
		return err
	}
	return b.Delete(ctx, probe, second)
}

// mustRefuse returns an error unless the store refuses to write the probe under a condition that does not hold. A store that did not
// answer has not ignored the condition.
func mustRefuse(ctx context.Context, b Bucket, probe, revision string) error {
	_, err := b.Put(ctx, probe, []byte("probe of a condition"), revision)
	switch {
	case errors.Is(err, ErrChanged):
		return nil
	case err != nil:
		return err
	case revision == "":
		return errors.New("the store ignores a condition: it overwrites an object that must not exist")
	}
	return errors.New("the store ignores a condition: it overwrites an object that has changed")
}

// removeProbe removes, if it can, what a failed check leaves behind. The check may have failed because its time ran out.
func removeProbe(ctx context.Context, b Bucket, probe string) {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if _, revision, err := b.Get(ctx, probe); err == nil {
		_ = b.Delete(ctx, probe, revision) // the next check uses another probe
	}
}

// checkName refuses an invalid name before it becomes part of a path or a request.
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

// checkObject refuses an object that cannot be written.
func checkObject(name string, data []byte) error {
	if len(data) > MaxObject {
		return fmt.Errorf("it has %d bytes: at most %d are allowed", len(data), MaxObject)
	}
	return checkName(name)
}

// writtenAlready returns the revision of an object that a store refused to write, if it holds the data: an attempt whose answer was lost
// has written it. Otherwise it returns ErrChanged.
func writtenAlready(ctx context.Context, b Bucket, name string, data []byte) (revision string, err error) {
	stored, revision, err := b.Get(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", ErrChanged
	case err != nil:
		return "", err
	case !bytes.Equal(stored, data):
		return "", ErrChanged
	}
	return revision, nil
}

// attempt adds the operation and the object to an error. It must be deferred.
func attempt(verb, name string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("%s object %q: %w", verb, name, *err)
	}
}
