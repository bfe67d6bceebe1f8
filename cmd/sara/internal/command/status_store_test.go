package command

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sara/archive/bucket"
	"sara/archive/bucket/s3test"
	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/service"
	"sara/proxy"
)

func TestStatusProbesAnS3Store(t *testing.T) {
	t.Parallel()
	store := s3test.Start(t)
	c := clitest.New(t, sara)
	seedStatus(c, nil)
	replica := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady})
	location := store.NewBucket(t)
	code, r := statusOf(c, "--replica", replica, "--archive-url", location)
	if s := r.ObjectStore; code != ExitOK || s.State != "ok" || s.Kind != "S3" || s.Address != location || s.LatencyMS == nil || s.Problem != nil {
		t.Errorf("status %d, %v, object store %+v", code, r.Attention, s)
	}
	u, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "no-such-bucket"
	code, r = statusOf(c, "--replica", replica, "--archive-url", u.String())
	if s := r.ObjectStore; code != ExitError || s.State != "failing" || s.LatencyMS != nil ||
		!strings.Contains(console.Cell(s.Problem), "create the bucket, or name another") {
		t.Errorf("without its bucket: status %d, object store %+v (%v)", code, s, console.Cell(s.Problem))
	}
	if strings.Contains(c.Said.String(), s3test.SecretKey) {
		t.Error("the secret was printed")
	}
}

func TestStatusWaitsBrieflyForAFrozenStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // accepts no connection
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close(frozen)
	c := clitest.New(t, sara)
	seedStatus(c, nil)
	location := fmt.Sprintf("s3://sara/prefix?endpoint=http://%s&region=here", frozen.Addr())
	var code int
	var stdout, stderr string
	var took time.Duration
	replica, looked := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady}), make(chan struct{})
	go func() { // and begins to wait before all parallel tests
		begun := time.Now()
		code, stdout, stderr = c.Run("status", "--json", "--replica", replica, "--archive-url", location)
		took = time.Since(begun)
		close(looked)
	}()
	t.Parallel()
	<-looked
	r := statusIn(t, stdout, stderr)
	if s := r.ObjectStore; code != ExitError || s.State != "unreachable" || len(r.Attention) != 1 ||
		!strings.HasPrefix(r.Attention[0], "object store: SARA_ARCHIVE_URL: s3://sara/prefix") {
		t.Errorf("status %d, %q, object store %+v", code, r.Attention, s)
	}
	if took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if r.Archive.Problem != nil || r.Archive.Counts.Properties != 23 {
		t.Errorf("the rest of the status: %+v", r.Archive)
	}
}

func TestStatusNeedsTheFolderOfTheArchive(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	seedStatus(c, nil)
	replica, folder := fakeReplica(t, 200, proxy.Status{State: proxy.StateReady}), c.Path("nowhere")
	code, r := statusOf(c, "--replica", replica, "--archive-url", "file://"+folder)
	if s := r.ObjectStore; code != ExitError || s.State != "failing" || s.Kind != "folder" || s.Address != folder ||
		!strings.Contains(console.Cell(s.Problem), "there is no such folder") {
		t.Errorf("status %d, object store %+v (%s)", code, s, console.Cell(s.Problem))
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("the probe made the folder")
	}
}

// What each replica sees of the object store is in its metrics: failures by operation, and the circuit breaker.
func TestStatusShowsTheObjectStoreOfReplicas(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	seedStatus(c, nil)
	watched := func() (store *bucket.Watched, folder, base string) {
		folder = filepath.Join(t.TempDir(), "archive")
		opened, err := bucket.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		registry := prometheus.NewRegistry()
		store, err = bucket.NewWatched(opened, bucket.WatchConfig{Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		return store, folder, fakeMetrics(t, registry)
	}
	healthy, _, good := watched()
	failing, folder, bad := watched()
	if _, err := healthy.List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	begun := time.Now().Truncate(time.Second)
	for range 5 { // the circuit breaker opens at the third
		if _, err := failing.List(t.Context(), ""); err == nil {
			t.Fatal("a folder that was removed is listed")
		}
	}
	_, r := statusOf(c, "--replica", good, "--replica", bad, "--replica", fakeReplica(t, 200, proxy.Status{State: proxy.StateReady}))
	if use := r.Replicas[0].Store; use == nil || use.BreakerOpen || use.Failed["list"] != 0 || use.Refused != 0 || use.FailedAt != nil {
		t.Errorf("a replica whose store works: %+v", use)
	}
	use := r.Replicas[1].Store
	if use == nil || !use.BreakerOpen || use.Failed["list"] != 3 || use.Refused != 2 || use.FailedAt == nil {
		t.Fatalf("a replica whose store fails: %+v", use)
	}
	if at, err := time.Parse(time.RFC3339, *use.FailedAt); err != nil || at.Before(begun) || at.After(time.Now()) {
		t.Errorf("the last failure was at %s, want after %v", *use.FailedAt, begun)
	}
	if r.Replicas[2].Store != nil {
		t.Errorf("a replica without metrics: %+v", r.Replicas[2].Store)
	}
	_, text, _ := c.Run("status", "--replica", good, "--replica", bad)
	for _, want := range []string{"OBJECT STORE of the archive\n", good + " closed none 0", bad + " open list: 3 2 " + *use.FailedAt} {
		if !strings.Contains(text, want) && !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("for people, it lacks %q:\n%s", want, text)
		}
	}
}
