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

// An s3 bucket keeps objects under a prefix of a bucket of an S3 store. An object's revision is its entity tag, and the
// store itself compares it (If-Match, If-None-Match: *).
type s3 struct {
	core   minio.Core
	bucket string
	prefix string // empty, or ends in a slash
}

var _ Bucket = (*s3)(nil)

const (
	defaultEndpoint = "https://s3.amazonaws.com"
	requestTimeout  = 30 * time.Second // the longest that one operation may take, its retries included
	requestTries    = 4
)

func openS3URL(location string) (Bucket, error) {
	u, err := url.Parse(location)
	if err != nil {
		return nil, errors.New("open bucket: the URL cannot be read") // its text may hold a credential
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("open bucket: the parameters of the URL cannot be read")
	}
	for name := range query {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("open bucket: the parameter %q is none of endpoint, region", name)
		}
	}
	switch {
	case u.User != nil:
		return nil, errors.New("open bucket: credentials do not belong in the URL, they come from the environment")
	case u.Host == "":
		return nil, errors.New("open bucket: s3://bucket/prefix lacks the name of the bucket")
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
		return nil, errors.New("open bucket: the endpoint is not of the form https://host or https://host:port")
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
		Transport:  conditional{transport},
		Region:     region,
		MaxRetries: requestTries,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %q at %s: %w", name, endpoint.Host, err)
	}
	return &s3{core: *client, bucket: name, prefix: prefix}, nil
}

func (b *s3) Get(ctx context.Context, name string) (data []byte, revision string, err error) {
	defer func() { err = attempt("get", name, err) }()
	if err := checkName(name); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, info, _, err := b.core.GetObject(ctx, b.bucket, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", known(err)
	}
	defer closeRead(body)
	if info.Size > MaxObject {
		return nil, "", fmt.Errorf("it has %d bytes: at most %d are allowed", info.Size, MaxObject)
	}
	data = make([]byte, info.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, "", err
	}
	return data, info.ETag, nil
}

func (b *s3) Put(ctx context.Context, name string, data []byte, revision string) (string, error) {
	if err := checkObject(name, data); err != nil {
		return "", attempt("put", name, err)
	}
	// An object in several parts would be written in several requests, of which only the last is conditional.
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	if revision == "" {
		options.SetMatchETagExcept("*")
	} else {
		options.SetMatchETag(revision)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := b.core.Client.PutObject(ctx, b.bucket, b.prefix+name, bytes.NewReader(data), int64(len(data)), options)
	if err != nil {
		err = known(err)
		if errors.Is(err, ErrNotFound) && revision != "" {
			err = ErrChanged // it has been removed
		}
		return "", attempt("put", name, err)
	}
	return info.ETag, nil
}

func (b *s3) List(ctx context.Context, prefix string) ([]Entry, error) {
	if err := checkPrefix(prefix); err != nil {
		return nil, attempt("list", prefix, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var entries []Entry
	for info := range b.core.ListObjectsIter(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if info.Err != nil {
			return nil, attempt("list", prefix, known(info.Err))
		}
		name := strings.TrimPrefix(info.Key, b.prefix)
		if checkName(name) != nil {
			continue // nothing of ours, such as the marker of a directory
		}
		entries = append(entries, Entry{Name: name, Revision: strings.Trim(info.ETag, `"`), Size: info.Size})
	}
	if err := ctx.Err(); err != nil {
		return nil, attempt("list", prefix, err) // the iteration just ends then
	}
	sortEntries(entries)
	return entries, nil
}

func (b *s3) Delete(ctx context.Context, name, revision string) error {
	if err := checkName(name); err != nil {
		return attempt("delete", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// A store that removes without regard to the condition is kept from it but for the moment in between.
	info, err := b.core.StatObject(ctx, b.bucket, b.prefix+name, minio.StatObjectOptions{})
	if err = known(err); errors.Is(err, ErrNotFound) || err == nil && info.ETag != revision {
		err = ErrChanged
	}
	if err == nil {
		ctx := context.WithValue(ctx, matchKey{}, revision)
		err = known(b.core.RemoveObject(ctx, b.bucket, b.prefix+name, minio.RemoveObjectOptions{}))
	}
	return attempt("delete", name, err)
}

// known turns the store's answers that callers tell apart into the package's errors.
func known(err error) error {
	if err == nil {
		return nil
	}
	switch answer := minio.ToErrorResponse(err); {
	case answer.Code == minio.NoSuchKey:
		return ErrNotFound
	case answer.StatusCode == http.StatusPreconditionFailed, answer.StatusCode == http.StatusConflict,
		answer.Code == minio.PreconditionFailed:
		return ErrChanged
	}
	return err
}

// conditional adds the condition to requests that remove an object, for which the client has no option.
type conditional struct {
	next http.RoundTripper
}

type matchKey struct{}

func (c conditional) RoundTrip(request *http.Request) (*http.Response, error) {
	if revision, ok := request.Context().Value(matchKey{}).(string); ok && request.Method == http.MethodDelete {
		request = request.Clone(request.Context())
		request.Header.Set("If-Match", `"`+revision+`"`)
	}
	return c.next.RoundTrip(request)
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
}
