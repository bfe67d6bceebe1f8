package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/cmd/sara/internal/settings"
	"sara/policy/redisconn"
	"sara/proxy/redisinfo"
)

// redisStepTimeout bounds each dial, read and write of a command. It is twenty times that of a request, because a machine that is busy
// answers late, and a command has nothing else to fall back on.
const redisStepTimeout = 2 * time.Second

// OpenRedis returns a client for a command or a preflight check, nil without a Redis. It does not connect yet. The caller closes it.
func OpenRedis(r settings.Redis) (redisconn.Client, error) { return r.Open(redisStepTimeout) }

// errSentinel means that a URL names a Sentinel as if it were the server.
var errSentinel = errors.New("it is a Sentinel")

// CheckRedis reports whether Redis answers, if there is one: an UnavailableError if it does not, another error if it refuses.
func CheckRedis(ctx context.Context, r settings.Redis) error {
	client, err := OpenRedis(r)
	if client == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err = client.Ping(ctx).Err(); err == nil && !r.Sentinel() {
		if text, _ := client.Info(ctx, "server").Result(); strings.Contains(text, "redis_mode:sentinel") { // INFO may be forbidden
			err = errSentinel
		}
	}
	if err != nil {
		fix, refused := redisFix(err, r)
		err = settings.Errorf(r.Setting, "%v does not answer: %s%s", r, OneLine(err), fix)
		if !refused {
			err = &UnavailableError{err}
		}
	}
	return errors.Join(err, client.Close())
}

// redisFix says what to do about an error of Redis, and whether Redis itself refuses, which waiting does not fix.
func redisFix(err error, r settings.Redis) (fix string, refused bool) {
	text := err.Error()
	if r.Sentinel() {
		if fix = sentinelFix(err); fix != "" {
			return fix, true
		}
	}
	switch {
	case errors.Is(err, errSentinel):
		return ", which has no data: add ?master_name=NAME, and &addr=HOST:PORT for each further sentinel", true
	case strings.HasPrefix(text, "NOAUTH"):
		return "; it requires a password: write redis://USER:PASSWORD@HOST:PORT, or redis://:PASSWORD@HOST:PORT without a user", true
	case strings.HasPrefix(text, "WRONGPASS"), strings.Contains(text, "AUTH"):
		return "; it rejects this user or password: write redis://USER:PASSWORD@HOST:PORT, with special characters percent-encoded", true
	case strings.HasPrefix(text, "NOPERM"):
		return "; its user lacks permissions: give it the rules of deploy/redis, and in a cluster +command +cluster|slots +cluster|info", true
	case errors.As(err, new(tls.RecordHeaderError)):
		return "; it does not speak TLS: write redis:// instead of rediss://", true
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "; its certificate is not trusted here: use the host name of the certificate, and install the certificate of its issuer", true
	case errors.Is(err, context.DeadlineExceeded) && r.TLS():
		return "; check that it runs, and that it speaks TLS: if it does not, write redis:// instead of rediss://", false
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "; it closes the connection: if it speaks TLS only, write rediss:// instead of redis://", false
	}
	return "; check that it runs, and that this machine reaches it at an address like redis://127.0.0.1:6379", false
}

// sentinelFix says what to do if the sentinels, or the master that they name, refuse. It is empty if they do not.
func sentinelFix(err error) string {
	text := err.Error()
	password := strings.Contains(text, "NOAUTH") || strings.Contains(text, "WRONGPASS")
	switch ofSentinels := strings.Contains(text, "all sentinels specified in configuration"); {
	case password && ofSentinels:
		return "; the sentinels require a password, or reject this one: write theirs before the @, as in redis://USER:PASSWORD@HOST:PORT"
	case password:
		return "; the master requires a password, or rejects this one: write its own as &username=USER&password=PASSWORD, " +
			"since those before the @ are for the sentinels"
	case ofSentinels && errors.Is(err, redis.Nil):
		return "; the sentinels know no master with the name of master_name"
	case ofSentinels && strings.Contains(text, "unknown command"):
		return "; it is no Sentinel: write the port of one, usually 26379, or omit master_name"
	}
	return ""
}

// NoteOfEviction says what the eviction policies of servers mean for the counters on them. It is empty if all is well.
func NoteOfEviction(servers []redisinfo.Server) string {
	const fix = "set maxmemory-policy to noeviction, and if the memory is too small for cached rows put them on another Redis with SARA_REDIS_CACHE_URL"
	evicts, known := redisinfo.MayEvict(servers)
	policies := redisinfo.Policies(servers)
	switch {
	case evicts:
		return "the Redis of SARA_REDIS_URL evicts keys when its memory is full (maxmemory-policy " + strings.Join(policies, ", ") +
			"), and sara cannot prevent that: it may delete what accounts have used, and then grants it again; " + fix
	case !known:
		return "the Redis of SARA_REDIS_URL does not report its eviction policy: if it is not noeviction, Redis may delete what accounts " +
			"have used when its memory is full, and then grants it again; let its user run INFO, and " + fix
	}
	return ""
}

// SealNote says what is not shared over Redis without a secret key. It is empty if all is well.
func SealNote(s settings.Store, r settings.Redis) string {
	if !r.IsSet() || s.SecretKey.Key != nil {
		return ""
	}
	return "without SARA_SECRET_KEY, which seals them, replicas share no cached rows over Redis, and each asks the upstream for itself: " +
		"set the same key for all of them"
}

// RedisNote reads the INFO of the Redis that has the counters, and returns the NoteOfEviction. It is empty without a Redis, and
// if it does not answer.
func RedisNote(ctx context.Context, r settings.Redis) string {
	client, err := OpenRedis(r)
	if client == nil || err != nil {
		return ""
	}
	defer func() { _ = client.Close() }() // only read
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	servers, err := redisinfo.Read(ctx, client)
	if err != nil && !redisinfo.Refused(err) {
		return ""
	}
	return NoteOfEviction(servers)
}
