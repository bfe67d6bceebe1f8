package bucket

import (
	"errors"
	"net"
	"strings"
	"testing"

	"sara/archive/bucket/s3test"
)

func TestS3ErrorsNameTheObjectAndNoSecret(t *testing.T) {
	const secret = "not-the-right-secret"
	refuse := func(name, location, want string) {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
			b := open(t, location)
			_, _, getErr := b.Get(t.Context(), "some/object")
			_, putErr := b.Put(t.Context(), "some/object", []byte("x"), "")
			_, listErr := b.List(t.Context(), "some/object")
			for _, err := range []error{getErr, putErr, listErr, Check(t.Context(), b, "some/object")} {
				if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "some/object") ||
					!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	server := s3test.Start(t)
	location := server.NewBucket(t)
	refuse("wrong credentials", location, "signature")
	refuse("no such bucket", strings.Replace(location, "s3://", "s3://no-", 1), "")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	refuse("no server answers", "s3://bucket?region=us-east-1&endpoint=http://"+addr, "refused")
}
