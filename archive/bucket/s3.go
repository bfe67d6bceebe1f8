package bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// An s3 bucket keeps objects under a prefix of an S3 bucket. An object's revision is its entity tag, which the store compares in
// conditional requests (If-Match, If-None-Match: *).
type s3 struct {
	core   minio.Core
	bucket string
	prefix string // empty, or ends in a slash
}

var _ Bucket = (*s3)(nil)

const (
	defaultEndpoint = "https://s3.amazonaws.com"
	requestTimeout  = 30 * time.Second // for one operation, including its retries
	requestTries    = 4
)

func openS3URL(location string) (Bucket, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, errors.New("open bucket: the URL is malformed") // its text may contain a credential
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("open bucket: the parameters of the URL are malformed")
	}
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("open bucket: the parameter %q is neither endpoint nor region", name)
		}
	}
	switch {
	case u.User != nil:
		return nil, errors.New("open bucket: credentials do not belong in the URL: set them in the environment")
	case u.Host == "":
		return nil, errors.New("open bucket: the URL has no bucket: write s3://bucket/prefix")
	case u.Port() != "":
		return nil, fmt.Errorf("open bucket: %s is not a bucket: write s3://bucket/prefix?endpoint=https://host:port", u.Host)
	case u.Fragment != "":
		return nil, errors.New("open bucket: the URL must not have a #")
	}
	endpoint, err := parseEndpoint(cmp.Or(query.Get("endpoint"), defaultEndpoint))
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		if err := checkName(prefix); err != nil {
			return nil, fmt.Errorf("open bucket: prefix: %w", err)
		}
		prefix += "/"
	}
	return newS3(endpoint, u.Host, prefix, query.Get("region"))
}

func parseEndpoint(s string) (*url.URL, error) {
	endpoint, err := url.Parse(s)
	if err != nil || endpoint.Host == "" || endpoint.Scheme != "http" && endpoint.Scheme != "https" ||
		strings.Trim(endpoint.Path, "/") != "" || endpoint.User != nil || endpoint.RawQuery != "" {
		return nil, errors.New("open bucket: the endpoint must be https://host or https://host:port")
	}
	return endpoint, nil
}

func newS3(endpoint *url.URL, name, prefix, region string) (Bucket, error) {
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{},
			&credentials.EnvMinio{},
			&credentials.FileAWSCredentials{},
			&credentials.IAM{},
		}),
		Secure:     endpoint.Scheme == "https",
		Transport:  storeTransport{transport},
		Region:     region,
		MaxRetries: requestTries,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %q at %s: %w", name, endpoint.Host, err)
	}
	return &s3{core: *client, bucket: name, prefix: prefix}, nil
}

func (b *s3) Get(ctx context.Context, name string) (data []byte, revision string, err error) {
	defer attempt("get", name, &err)
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, info, _, err := b.core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", mapError(err)
	}
	defer closeRead(body)
	if info.ETag == "" {
		return nil, "", errNoTag
	}
	data, err = readBody(body, info.Size)
	return data, info.ETag, err
}

// errNoTag means that something other than a store has answered, or one that cannot compare entity tags.
var errNoTag = errors.New("the answer has no entity tag, so it is not that of an S3 store")

// readBody reads an object of size bytes, which is negative if the store does not report it.
func readBody(body io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		data, err := io.ReadAll(io.LimitReader(body, MaxObject+1))
		if err == nil && len(data) > MaxObject {
			err = fmt.Errorf("%w: it has more than %d bytes", ErrUnusable, MaxObject)
		}
		return data, err
	}
	if size > MaxObject {
		return nil, fmt.Errorf("%w: it has %d bytes, and at most %d are allowed", ErrUnusable, size, MaxObject)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(body, data)
	return data, err
}

func (b *s3) Put(ctx context.Context, name string, data []byte, revision string) (_ string, err error) {
	defer attempt("put", name, &err)
	if err := checkObject(name, data); err != nil {
		return "", err
	}
	// A multipart upload takes several requests, and only the last is conditional.
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	if revision == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(revision)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := b.core.Client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), options)
	switch err = mapError(err); {
	case errors.Is(err, ErrChanged):
		return writtenAlready(ctx, b, name, data)
	case errors.Is(err, ErrNotFound) && revision != "":
		return "", ErrChanged // it was removed
	case err != nil:
		return "", err
	case info.ETag == "":
		return "", errNoTag
	}
	return info.ETag, nil
}

func (b *s3) List(ctx context.Context, prefix string) (_ []Entry, err error) {
	defer attempt("list", prefix, &err)
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var entries []Entry
	for info := range b.core.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, mapError(info.Err)
		}
		name := strings.TrimPrefix(info.Key, b.prefix)
		if checkName(name) != nil {
			continue // not an object of ours, such as a directory marker
		}
		entries = append(entries, Entry{Name: name, Revision: info.ETag, Size: info.Size})
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the iterator ends without an error
	}
	sortEntries(entries)
	return entries, nil
}

func (b *s3) Delete(ctx context.Context, name, revision string) (err error) {
	defer attempt("delete", name, &err)
	if err := checkName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// Some stores ignore the condition of a delete. Checking first narrows the race to the gap between the two requests.
	info, err := b.core.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
	if err = mapError(err); errors.Is(err, ErrNotFound) || err == nil && info.ETag != revision {
		err = ErrChanged
	}
	if err == nil {
		ctx := context.WithValue(ctx, matchKey{}, revision)
		err = mapError(b.core.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
		if errors.Is(err, ErrNotFound) {
			err = ErrChanged // it was removed in between, possibly by an attempt whose response was lost
		}
	}
	return err
}

// mapError returns the package's error for a response of the store, if there is one. The text of every other has the store's code.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	switch response := minio.ToErrorResponse(err); {
	case response.Code == minio.NoSuchKey:
		return ErrNotFound
	case response.StatusCode == http.StatusPreconditionFailed, response.StatusCode == http.StatusConflict,
		response.Code == minio.PreconditionFailed:
		return ErrChanged
	case !strings.Contains(err.Error(), response.Code):
		return fmt.Errorf("%.60s: %w", response.Code, err)
	}
	return err
}

// storeTransport adds the condition to delete requests, for which the client has no option, and refuses answers that are not the
// store's. After a request without an answer in time it closes the idle connections: the network may have lost them all.
type storeTransport struct {
	next *http.Transport
}

type matchKey struct{}

func (t storeTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if revision, ok := request.Context().Value(matchKey{}).(string); ok && request.Method == http.MethodDelete {
		request = request.Clone(request.Context())
		request.Header.Set("If-Match", `"`+revision+`"`)
	}
	response, err := t.next.RoundTrip(request)
	if err != nil && errors.Is(request.Context().Err(), context.DeadlineExceeded) {
		t.next.CloseIdleConnections()
	}
	if err == nil && isPage(request, response) {
		closeRead(response.Body)
		response.Status = fmt.Sprintf("the endpoint answers %s with a web page: it is not an S3 store, or a proxy that does not reach one", response.Status)
		response.StatusCode, response.Body = http.StatusMisdirectedRequest, http.NoBody // the client does not retry this status
	}
	return response, err
}

// isPage reports whether a proxy has answered in place of a store; stores describe errors and listings in XML. The client would
// take a proxy's 404 for a missing object, and its page for an empty listing. Other errors mean the same from a proxy.
func isPage(request *http.Request, response *http.Response) bool {
	switch kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";"); {
	case kind != "text/html" && kind != "text/plain":
		return false
	case response.StatusCode == http.StatusOK:
		return request.URL.Query().Has("list-type")
	}
	return response.StatusCode == http.StatusNotFound && request.Method != http.MethodHead
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}
