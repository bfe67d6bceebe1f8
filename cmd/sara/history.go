package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"sara/archive"
	"sara/archive/bucket"
)

// history opens the archived history, and makes its folder if it is a local one.
func (s archiveSettings) history(now func() time.Time) (*archive.History, error) {
	b, err := s.bucket()
	if err != nil {
		return nil, err
	}
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: b, Now: now})
	if err != nil {
		return nil, s.wrong(err)
	}
	return history, nil
}

func (s archiveSettings) bucket() (bucket.Bucket, error) {
	b, err := bucket.Open(s.ArchiveURL)
	if err != nil {
		return nil, s.wrong(err)
	}
	return b, nil
}

func (s archiveSettings) wrong(err error) error {
	return wrongSetting("SARA_ARCHIVE_URL", "%s: %v%s", s.location(), err, archiveFix(err))
}

// check looks at the form of the location.
func (s archiveSettings) check() error {
	if _, ok := s.folder(); ok {
		return nil // opening it would make it
	}
	_, err := s.bucket()
	return err
}

// checkArchive writes a small object and removes it, or reports whether the folder could be made.
func (s archiveSettings) checkArchive(ctx context.Context) error {
	if folder, ok := s.folder(); ok {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return checkWritable("SARA_ARCHIVE_URL", folder)
		}
	}
	b, err := s.bucket()
	if err != nil {
		return err
	}
	// A name of its own, since the replicas of a deployment may all be checked at once.
	ctx, cancel := context.WithTimeout(ctx, neighbourLimit)
	defer cancel()
	err = bucket.Check(ctx, b, "sara-check-"+rand.Text())
	switch {
	case err == nil:
		return nil
	case isArchiveAway(err):
		return &awayError{s.wrong(err)}
	}
	return s.wrong(err)
}

// folder returns the local folder that the location names, if it names one.
func (s archiveSettings) folder() (path string, ok bool) {
	if !strings.Contains(s.ArchiveURL, "://") {
		return s.ArchiveURL, s.ArchiveURL != ""
	}
	u, err := url.Parse(s.ArchiveURL)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path == "" {
		return "", false
	}
	return u.Path, true
}

// location is where the archive is, without what may be secret.
func (s archiveSettings) location() string {
	if path, ok := s.folder(); ok {
		return path
	}
	return maskURL(s.ArchiveURL)
}
