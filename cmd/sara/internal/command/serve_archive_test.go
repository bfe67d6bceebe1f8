package command

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sara/archive/bucket/s3test"
	"sara/cmd/sara/internal/clitest"
)

func TestCheckOfArchive(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	t.Run("a folder that is there", func(t *testing.T) {
		folder := t.TempDir()
		c.OK("serve", "--check", "--archive-url", "file://"+folder)
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("the check leaves %v (%v)", left, err)
		}
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "not", "there")
		c.OK("serve", "--check", "--archive-url", folder)
		if _, err := os.Stat(filepath.Dir(folder)); err == nil {
			t.Error("the check makes the folder")
		}
	})
}

func TestCheckOfS3Archive(t *testing.T) {
	t.Parallel()
	store := s3test.Start(t)
	c := clitest.New(t, sara)
	location := store.NewBucket(t)
	c.OK("serve", "--check", "--archive-url", location)
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "no-such-bucket"
	c.Fails(ExitError, []string{"serve", "--check", "--archive-url", u.String()},
		"SARA_ARCHIVE_URL (--archive-url): s3://no-such-bucket", "check bucket: ")
	if strings.Contains(c.Said.String(), s3test.SecretKey) {
		t.Error("the secret was printed")
	}
}
