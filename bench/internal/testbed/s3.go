package testbed

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sara/bench/internal/subprocess"
)

// An S3 is a private versitygw with one bucket.
type S3 struct {
	Folder string // of the bucket's objects

	address, root string
	process       *subprocess.Process
}

const (
	s3Key    = "bench"
	s3Secret = "bench-secret-key"
	s3Bucket = "archive"
)

// HasS3 reports whether this machine can run a private S3 store.
func HasS3() bool {
	_, err := exec.LookPath("versitygw")
	return err == nil
}

// env returns the settings of sara that name the store.
func (s *S3) env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret,
		"SARA_ARCHIVE_URL=s3://" + s3Bucket + "?region=us-east-1&endpoint=http://" + s.address}
}

func (b *Testbed) startS3() (*S3, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &S3{address: address, root: filepath.Join(b.folder, "s3")}
	s.Folder = filepath.Join(s.root, s3Bucket)
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return nil, err
	}
	return s, b.StartS3(s)
}

// StartS3 starts a store, for the first time or, with its objects, after StopS3, and waits until it answers.
func (b *Testbed) StartS3(s *S3) (err error) {
	s.process, err = b.startProcess(subprocess.Config{Program: "versitygw", Args: []string{"--port", s.address, "--quiet", "posix", s.root},
		Env: append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address, nil)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			return response.Body.Close()
		} else if ctx.Err() != nil {
			return fmt.Errorf("versitygw does not answer: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// PID returns the process to signal.
func (s *S3) PID() int { return s.process.PID }

// StopS3 stops the store, which keeps its objects.
func (b *Testbed) StopS3(s *S3) error { return b.forget(s.process) }
