package sitemap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Limits bounds one Read. A zero field means its default.
type Limits struct {
	Files        int           // files of a property, index files among them: 500
	Depth        int           // nested index files: 3, so the files of the third are read and a fourth is not followed
	Redirects    int           // of one file: 5
	FileBytes    int64         // of one file, on the wire and again at each layer of decoding: 50 MiB
	TotalBytes   int64         // of all files of a Read, counted alike, from which on no other file is read: 1 GiB
	AddressBytes int64         // of what a Read finds: 16 MiB, which is 50,000 addresses of 335 bytes
	FileTime     time.Duration // for one file, from the DNS lookup to the last byte: 30 s
	TotalTime    time.Duration // for all files of a Read: 5 min
}

// Config configures a Reader. The zero Config is suitable for production.
type Config struct {
	// Transport replaces the guarded one. Hosts are still checked against the property, but not the addresses they resolve
	// to, and the size of response headers is unbounded.
	Transport http.RoundTripper

	// AllowLoopback is for a simulator on the same machine: connections to loopback addresses are allowed, and every
	// property includes sitemaps on them and on localhost, on any port.
	AllowLoopback bool

	Resolver  *net.Resolver // for the guarded transport; nil is the system's
	Limits    Limits
	UserAgent string // "" is "sara"
}

// Reader reads sitemaps.
type Reader struct {
	transport     http.RoundTripper
	allowLoopback bool
	limits        Limits
	userAgent     string
}

// New returns a Reader. A negative limit is an error, and so is a Resolver together with a Transport, which would not use it.
func New(config Config) (*Reader, error) {
	l := config.Limits
	if l.Files < 0 || l.Depth < 0 || l.Redirects < 0 || l.FileBytes < 0 || l.TotalBytes < 0 || l.AddressBytes < 0 || l.FileTime < 0 || l.TotalTime < 0 {
		return nil, fmt.Errorf("sitemap limits %+v: one is negative", l)
	}
	if config.Transport != nil && config.Resolver != nil {
		return nil, errors.New("sitemap reader: a resolver cannot be combined with a transport")
	}
	r := &Reader{transport: config.Transport, allowLoopback: config.AllowLoopback, limits: l.orDefaults(), userAgent: cmp.Or(config.UserAgent, "sara")}
	if r.transport == nil {
		r.transport = newTransport(config.Resolver, config.AllowLoopback)
	}
	return r, nil
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Files:        cmp.Or(l.Files, 500),
		Depth:        cmp.Or(l.Depth, 3),
		Redirects:    cmp.Or(l.Redirects, 5),
		FileBytes:    cmp.Or(l.FileBytes, 50<<20),
		TotalBytes:   cmp.Or(l.TotalBytes, 1<<30),
		AddressBytes: cmp.Or(l.AddressBytes, 16<<20),
		FileTime:     cmp.Or(l.FileTime, 30*time.Second),
		TotalTime:    cmp.Or(l.TotalTime, 5*time.Minute),
	}
}

// Read reads the sitemaps at the paths, which are URLs from Search Console, and the files they name. It ends when there are no more, at a
// limit, or when it has found more than maxURLs distinct URLs (0: no limit). It reads files breadth-first, in the order of Found.Files.
//
// The only error is that of ctx: the error of a file is its Problem.
func (r *Reader) Read(ctx context.Context, scope Scope, paths []string, maxURLs int) (Found, error) {
	total, cancel := context.WithTimeout(ctx, r.limits.TotalTime)
	defer cancel()
	g := newFindings(r, scope, maxURLs)
	for _, path := range paths {
		g.addPath(path)
	}
	for i := 0; i < len(g.files); i++ {
		f := g.files[i]
		if g.full == "" && g.read >= r.limits.TotalBytes {
			g.full = "files of more than " + humanize.IBytes(uint64(r.limits.TotalBytes)) // #nosec G115 -- a limit is not negative
		}
		switch {
		case f.Problem != "":
		case i >= r.limits.Files:
			f.Problem = fmt.Sprintf("not read: at most %d sitemaps are read for a property", r.limits.Files)
		case g.full != "":
			f.Problem = "not read: there were " + g.full + " before it"
		case total.Err() != nil:
			f.Problem = fmt.Sprintf("not read: the time limit for all sitemaps, %s, was reached", r.limits.TotalTime)
		default:
			f.Problem = r.outcome(total, f, r.readFile(total, g, f))
		}
		if err := ctx.Err(); err != nil {
			return Found{}, fmt.Errorf("reading sitemap %d of %d: %w", i+1, len(g.files), err)
		}
	}
	return g.found(), nil
}

// readFile reads one file into the findings, within the time for one file.
func (r *Reader) readFile(ctx context.Context, g *findings, f *file) error {
	ctx, cancel := context.WithTimeout(ctx, r.limits.FileTime)
	defer cancel()
	body, err := r.open(ctx, g.scope, f.address)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // the content has been read
	text, err := decode(body, r.limits.FileBytes, &g.read)
	if err != nil {
		return err
	}
	return parse(text, &fileSink{findings: g, file: f})
}

// outcome returns the Problem of a file whose reading ended with err.
func (r *Reader) outcome(total context.Context, f *file, err error) string {
	var parts []string
	switch {
	case err == nil:
	case total.Err() != nil && !errors.As(err, new(problem)):
		parts = append(parts, fmt.Sprintf("the time limit for all sitemaps, %s, was reached while it was read", r.limits.TotalTime))
	default:
		parts = append(parts, r.explain(err))
	}
	if cut, ok := errors.AsType[*cutError](err); ok {
		parts = append(parts, fmt.Sprintf("it was read up to line %d, and the rest is lost", cut.line))
	}
	if f.invalid > 0 {
		parts = append(parts, fmt.Sprintf("sitemaps it names without a valid address: %d", f.invalid))
	}
	if f.unread > 0 {
		parts = append(parts, fmt.Sprintf("sitemaps it names that are not read: %d, because at most %d are read for a property", f.unread, r.limits.Files))
	}
	return strings.Join(parts, "; ")
}
