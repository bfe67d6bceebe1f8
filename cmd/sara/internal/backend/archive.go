package backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/prometheus/client_golang/prometheus"

	"sara/archive"
	"sara/archive/bucket"
	"sara/cmd/sara/internal/settings"
)

// OpenBucket opens the objects of the archive. It creates the folder of a local archive.
func OpenBucket(s settings.Archive) (bucket.Bucket, error) {
	b, err := s.ArchiveURL.Open()
	if err != nil {
		return nil, archiveError(s.ArchiveURL, err)
	}
	return b, nil
}

// OpenArchive opens the archived history. It creates the folder of a local archive.
func OpenArchive(s settings.Archive, now func() time.Time) (*archive.History, error) {
	b, err := OpenBucket(s)
	if err != nil {
		return nil, err
	}
	return openHistory(s, b, now)
}

func openHistory(s settings.Archive, b bucket.Bucket, now func() time.Time) (*archive.History, error) {
	history, err := archive.NewHistory(archive.HistoryConfig{Bucket: b, Now: now})
	if err != nil {
		return nil, archiveError(s.ArchiveURL, err)
	}
	return history, nil
}

// A WatchedArchive is the archived history of a server, whose object store is watched.
type WatchedArchive struct {
	*archive.History
	Store *bucket.Watched
}

// WatchArchive opens the archived history of a server.
func WatchArchive(s settings.Archive, now func() time.Time, registry *prometheus.Registry, log *slog.Logger) (*WatchedArchive, error) {
	b, err := OpenBucket(s)
	if err != nil {
		return nil, err
	}
	store, err := bucket.NewWatched(b, bucket.WatchConfig{Registry: registry, Log: log})
	if err != nil {
		return nil, err
	}
	history, err := openHistory(s, store, now)
	if err != nil {
		return nil, err
	}
	damaged := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "sara_archive_damaged_reads_total", Help: "Times that an object of the archive was needed, and was damaged: its days are not served.",
	}, func() float64 { return float64(history.DamagedReads()) })
	return &WatchedArchive{History: history, Store: store}, registry.Register(damaged)
}

// CheckArchive writes a small object and removes it. For a folder that does not exist, it reports whether it can be created.
// The error is an UnavailableError if the store does not answer.
func CheckArchive(ctx context.Context, location settings.Bucket) error {
	if folder := location.Folder; folder != "" {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return attributeToArchive(location, checkCreatable(folder))
		}
	}
	b, err := location.Open()
	if err != nil {
		return archiveError(location, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	// The name is random, since several replicas may run this check at once.
	err = bucket.Check(ctx, b, "sara-check-"+rand.Text())
	return attributeToArchive(location, err)
}

// ProbeArchive lists no objects, which shows that the store answers and lets these credentials list. It changes nothing: a folder
// must exist. The error is an UnavailableError if the store does not answer.
func ProbeArchive(ctx context.Context, location settings.Bucket) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	probed := make(chan error, 1)
	go func() { probed <- probeArchive(ctx, location) }() // neither a network file system nor a search for credentials heeds ctx
	select {
	case err := <-probed:
		return attributeToArchive(location, err)
	case <-ctx.Done():
		return attributeToArchive(location, fmt.Errorf("it does not answer within %v: %w", checkTimeout, ctx.Err()))
	}
}

func probeArchive(ctx context.Context, location settings.Bucket) error {
	if folder := location.Folder; folder != "" {
		_, err := os.Stat(folder) // to open it would create it
		if errors.Is(err, fs.ErrNotExist) {
			return errors.New("there is no such folder; sara serve creates it when it starts")
		}
		if err != nil {
			return err
		}
	}
	b, err := location.Open()
	if err != nil {
		return err
	}
	return bucket.Probe(ctx, b)
}

// attributeToArchive returns the error of a check with the setting and what to do; nil for nil.
func attributeToArchive(location settings.Bucket, err error) error {
	switch {
	case err == nil:
		return nil
	case isUnavailable(err):
		return &UnavailableError{archiveError(location, err)}
	}
	return archiveError(location, err)
}

func archiveError(location settings.Bucket, err error) error {
	return settings.Errorf("SARA_ARCHIVE_URL", "%v: %v%s", location, err, archiveFix(err))
}

// archiveFix says what to do about an error of the archive's folder or store.
func archiveFix(err error) string {
	switch storeResponse(err).Code {
	case "NoSuchBucket":
		return "; create the bucket, or name another: s3://BUCKET/PREFIX"
	case "AccessDenied", "AllAccessDisabled":
		return "; let these credentials read, write, list and delete the objects of the bucket"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return "; it rejects these credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those of the store"
	case "PermanentRedirect", "AuthorizationHeaderMalformed":
		return "; the bucket is in another region: add ?region=NAME"
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		return "; let this user write there, or name another folder, such as sara-data/archive"
	}
	if isDisk(err) {
		return "; check that its disk has free space (df), and no errors"
	}
	if isNetwork(err) {
		return "; check that the store runs, and that this machine reaches it: s3://BUCKET/PREFIX?endpoint=https://HOST:PORT"
	}
	return ""
}

// isUnavailable reports whether the store did not answer, or the disk of the folder is full or away, as opposed to refusing.
func isUnavailable(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || isNetwork(err) || isDisk(err) || storeResponse(err).StatusCode >= 500
}

// isDisk reports whether an error is one of the disk, which may be that of another machine.
func isDisk(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains([]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ESTALE}, number)
}

// storeResponse returns the error response of an S3 store, empty for other errors.
func storeResponse(err error) minio.ErrorResponse {
	response, _ := errors.AsType[minio.ErrorResponse](err)
	return response
}
