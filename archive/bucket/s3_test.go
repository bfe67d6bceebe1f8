package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sara/archive/bucket/s3test"
)

func TestS3ErrorsNameTheObjectAndNoSecret(t *testing.T) {
	const wrong = "not-the-right-secret"
	refuse := func(name, secret, location, want string) {
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
	refuse("wrong credentials", wrong, location, "SignatureDoesNotMatch: The request signature")
	refuse("no such bucket", s3test.SecretKey, strings.Replace(location, "s3://", "s3://no-", 1), "NoSuchBucket: The specified bucket does not exist")

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	refuse("no server answers", wrong, "s3://bucket?region=us-east-1&endpoint=http://"+addr, "refused")
}

// oddStore returns a bucket in a store that answers as the handler does.
func oddStore(t *testing.T, answer http.HandlerFunc) Bucket {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "some")
	}
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return open(t, "s3://bucket?region=us-east-1&endpoint="+server.URL)
}

func writeObject(w http.ResponseWriter, tag string) {
	w.Header().Set("ETag", tag)
	w.Header().Set("Last-Modified", "Thu, 26 Nov 2026 13:00:00 GMT")
}

// Proxies in front of a store may leave out the length.
func TestS3ReadsObjectsOfUnknownLength(t *testing.T) {
	b := oddStore(t, func(w http.ResponseWriter, _ *http.Request) {
		writeObject(w, `"tag"`)
		_ = http.NewResponseController(w).Flush()
		_, _ = fmt.Fprint(w, "an object")
	})
	if data, revision, err := b.Get(t.Context(), "o"); string(data) != "an object" || revision != "tag" || err != nil {
		t.Errorf("it is %q, revision %q, %v", data, revision, err)
	}
}

// Where the network has lost all idle connections without notice, one operation fails on one of them, and the next uses a new one.
func TestS3LostConnectionsCostOneOperation(t *testing.T) {
	const connections = 3
	var known sync.Map // the addresses of their client sides
	var lost atomic.Bool
	var arrived atomic.Int64
	together := make(chan struct{}) // so that each has a connection
	b := oddStore(t, func(w http.ResponseWriter, r *http.Request) {
		if !lost.Load() {
			known.Store(r.RemoteAddr, true)
			if arrived.Add(1) == connections {
				close(together)
			}
			<-together
		} else if _, isLost := known.Load(r.RemoteAddr); isLost {
			<-r.Context().Done()
			return
		}
		writeObject(w, `"tag"`)
		_, _ = fmt.Fprint(w, "an object")
	})
	get := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, _, err := b.Get(ctx, "o")
		return err
	}
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			if err := get(time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	lost.Store(true)
	if first, second := get(200*time.Millisecond), get(10*time.Second); first == nil || second != nil {
		t.Errorf("the first: %v, the second: %v", first, second)
	}
}

// Operators look up the code of a store's refusal, and not every message has it.
func TestS3ErrorsHaveTheCodeOnce(t *testing.T) {
	for body, want := range map[string]string{
		"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>":        `get object "o": AccessDenied: Access Denied`,
		"<Error><Code>AccessDenied</Code><Message>AccessDenied for ann</Message></Error>": `get object "o": AccessDenied for ann`,
		"<Error><Code>InvalidAccessKeyId</Code></Error>":                                  `get object "o": InvalidAccessKeyId: `,
		"<Error><Code>KeyDisabled</Code></Error>":                                         `get object "o": Error response code KeyDisabled.`,
		"not XML": `get object "o": AccessDenied: `,
	} {
		b := oddStore(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, body)
		})
		if _, _, err := b.Get(t.Context(), "o"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// While a store is away, the proxy in front of it answers. That must not look like an empty archive.
func TestS3TakesNoPageOfAProxyForTheStore(t *testing.T) {
	for _, kind := range []string{"text/html", "text/plain; charset=utf-8"} {
		for _, status := range []int{http.StatusOK, http.StatusNotFound} {
			t.Run(fmt.Sprint(status, " ", kind), func(t *testing.T) {
				b := oddStore(t, func(w http.ResponseWriter, _ *http.Request) {
					writeObject(w, "")
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
					_, _ = fmt.Fprint(w, "<html>page not found</html>")
				})
				_, _, getErr := b.Get(t.Context(), "o")
				_, createErr := b.Put(t.Context(), "o", []byte("x"), "")
				_, putErr := b.Put(t.Context(), "o", []byte("x"), "tag")
				_, listErr := b.List(t.Context(), "o")
				for _, err := range []error{getErr, createErr, putErr, listErr} {
					if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "not") {
						t.Error(err)
					}
				}
			})
		}
	}
}

// The client retries after an outage, even one that a proxy reports.
func TestS3KeepsTheStatusOfAnOutage(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/bucket/?list-type=2", nil)
	for status, want := range map[int]bool{http.StatusOK: true, http.StatusNotFound: true, http.StatusBadGateway: false,
		http.StatusServiceUnavailable: false} {
		response := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/html"}}}
		if isPage(request, response) != want {
			t.Errorf("of status %d: not %t", status, want)
		}
	}
}

func TestS3DeleteOfAnObjectRemovedInBetween(t *testing.T) {
	b := oddStore(t, func(w http.ResponseWriter, r *http.Request) {
		writeObject(w, `"tag"`)
		if r.Method != http.MethodHead {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
	})
	if err := b.Delete(t.Context(), "o", "tag"); !errors.Is(err, ErrChanged) || errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// between returns a bucket in a store behind a proxy, which a test changes, and the same bucket without it.
func between(t *testing.T, change func(proxy *httputil.ReverseProxy, direct Bucket)) (b, direct Bucket) {
	t.Helper()
	location, err := url.Parse(s3test.Start(t).NewBucket(t))
	if err != nil {
		t.Fatal(err)
	}
	direct = open(t, location.String())
	query := location.Query()
	store, err := url.Parse(query.Get("endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = store.Scheme, store.Host // the header Host stays: it is signed
	}}
	change(proxy, direct)
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	query.Set("endpoint", server.URL)
	location.RawQuery = query.Encode()
	return open(t, location.String()), direct
}

// The client repeats a request whose answer was lost, and the store refuses to write the object once more.
func TestS3PutWhoseAnswerWasLost(t *testing.T) {
	var lost atomic.Int64
	b, direct := between(t, func(proxy *httputil.ReverseProxy, _ Bucket) {
		proxy.ModifyResponse = func(r *http.Response) error {
			if r.Request.Method == http.MethodPut && lost.Add(1)%2 == 1 {
				return errors.New("the answer is lost")
			}
			return nil
		}
		proxy.ErrorLog = log.New(io.Discard, "", 0)
	})
	revision := ""
	for i, data := range []string{"created", "replaced"} {
		revision = put(t, b, "o", data, revision)
		if got, tag, err := direct.Get(t.Context(), "o"); string(got) != data || tag != revision || err != nil || lost.Load() != int64(2*i+2) {
			t.Errorf("it is %q, revision %q, %v after %d attempts; want %q, %q", got, tag, err, lost.Load(), data, revision)
		}
	}
}

// Another process may change an object between the check and its removal.
func TestS3DeletesOnlyTheRevisionThatItHasSeen(t *testing.T) {
	var revision string
	b, other := between(t, func(proxy *httputil.ReverseProxy, other Bucket) {
		revision = put(t, other, "o", "old", "")
		rewrite := proxy.Rewrite
		proxy.Rewrite = func(r *httputil.ProxyRequest) {
			rewrite(r)
			if r.In.Method == http.MethodDelete {
				if _, err := other.Put(context.WithoutCancel(r.In.Context()), "o", []byte("new"), revision); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err := b.Delete(t.Context(), "o", revision); !errors.Is(err, ErrChanged) {
		t.Errorf("delete: %v", err)
	}
	if data, _, err := other.Get(t.Context(), "o"); string(data) != "new" {
		t.Errorf("the change of another process is lost: %q, %v", data, err)
	}
}
