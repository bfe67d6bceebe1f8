package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/command"
)

// testArchiveRefuses covers refusals by the archive: serve --check and serve both name the setting and the fix. They are processes, because
// its credentials are in their environment.
func testArchiveRefuses(t *testing.T, binary string) {
	env := append(clitest.New(t, sara).Env, "SARA_COLLECT=on", "AWS_ACCESS_KEY_ID=ann", "AWS_SECRET_ACCESS_KEY=hunter2")
	address := refusingBucket(t)
	for _, test := range []struct{ name, bucket, want, fix string }{
		{"no such bucket", "nowhere", "NoSuchBucket said the store", "create the bucket, or name another: s3://BUCKET/PREFIX"},
		{"a bucket of others", "others", "AccessDenied said the store", "let these credentials read, write, list and delete"},
		{"unknown credentials", "stranger", "InvalidAccessKeyId said the store", "set AWS_ACCESS_KEY_ID"},
	} {
		for _, args := range clitest.Preflights() {
			p := start(t, binary, append(env, "SARA_ARCHIVE_URL=s3://"+test.bucket+"?region=here&endpoint="+address), args...)
			stdout, err := p.wait()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != command.ExitError || stdout != "" {
				t.Errorf("%s: %v and output %q, want status %d and none", test.name, err, stdout, command.ExitError)
			}
			for _, want := range []string{"sara: SARA_ARCHIVE_URL: ", test.want, test.fix} {
				if !strings.Contains(p.stderr.String(), want) {
					t.Errorf("%s: the error lacks %q:\n%s", test.name, want, p.stderr)
				}
			}
			if strings.Contains(p.stderr.String(), "hunter2") {
				t.Error("a secret was quoted")
			}
		}
	}
}

// refusingBucket is a store that refuses everything, for a reason that depends on the bucket.
func refusingBucket(t *testing.T) (address string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, status := "AccessDenied", http.StatusForbidden
		switch {
		case strings.HasPrefix(r.URL.Path, "/nowhere"):
			code, status = "NoSuchBucket", http.StatusNotFound
		case strings.HasPrefix(r.URL.Path, "/stranger"):
			code = "InvalidAccessKeyId"
		}
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>" + code + " said the store</Message></Error>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
