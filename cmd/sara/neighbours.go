package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/minio/minio-go/v7"

	"sara/archive/sqlstore"
	"sara/policy"
)

// neighbourLimit is how long Redis and the archive may take to show that they can be used.
const neighbourLimit = 5 * time.Second

// checkNeighbours makes sure that Redis and the archive do not refuse what is asked of them, which no waiting would mend. One
// that does not answer is told of: serving goes on without it, and uses it as soon as it answers.
func (c *serveCommand) checkNeighbours(ctx context.Context, log *slog.Logger) error {
	errs := []error{c.checkRedis(ctx)}
	if c.Collect == "on" {
		errs = append(errs, c.checkArchive(ctx))
	}
	var refused []error
	for _, err := range errs {
		if away := (*awayError)(nil); errors.As(err, &away) {
			log.WarnContext(ctx, "serving begins without it", slog.Any("error", err))
			continue
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}

// An awayError is what is wrong with a setting if not only what it names does not answer at the moment.
type awayError struct{ error }

func (e *awayError) Unwrap() error { return e.error }

// checkRedis makes sure that Redis answers, if there is to be one.
func (s storeSettings) checkRedis(ctx context.Context) error {
	client, err := s.redis()
	if client == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, neighbourLimit)
	defer cancel()
	if err = client.Ping(ctx).Err(); err != nil {
		fix, refused := redisFix(err, s.RedisURL)
		err = wrongSetting("SARA_REDIS_URL", "%s does not answer: %s%s", policy.RedisAddress(s.RedisURL), oneLine(err), fix)
		if !refused {
			err = &awayError{err}
		}
	}
	return errors.Join(err, client.Close())
}

// redisFix says what to do about an error of Redis, and whether it is Redis that refuses, and not the way there.
func redisFix(err error, address string) (fix string, refused bool) {
	words := err.Error()
	switch {
	case strings.HasPrefix(words, "NOAUTH"):
		return "; it wants a password: write redis://USER:PASSWORD@HOST:PORT, or redis://:PASSWORD@HOST:PORT without a user", true
	case strings.HasPrefix(words, "WRONGPASS"), strings.Contains(words, "AUTH"):
		return "; it does not take this user with this password: write redis://USER:PASSWORD@HOST:PORT, with special characters percent-encoded", true
	case strings.HasPrefix(words, "NOPERM"):
		return "; its user may not do what is needed: let it run all commands on the keys and channels sara:* and rate:sara:*", true
	case errors.As(err, new(tls.RecordHeaderError)):
		return "; it does not speak TLS: write redis:// in place of rediss://", true
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "; its certificate is not trusted here: name the host as the certificate does, and install the certificate of who signed it", true
	case errors.Is(err, context.DeadlineExceeded) && strings.HasPrefix(address, "rediss:"):
		return "; see that it runs, and that it speaks TLS: if it does not, write redis:// in place of rediss://", false
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "; it ends the connection: if it speaks TLS only, write rediss:// in place of redis://", false
	}
	return "; see that it runs, and that this machine reaches it at an address like redis://127.0.0.1:6379", false
}

// wrongDatabase explains an error of opening the database.
func (s storeSettings) wrongDatabase(err error) error {
	return wrongSetting("SARA_DATABASE_URL", "%s: %s%s", maskURL(s.DatabaseURL), oneLine(err), databaseFix(err))
}

// databaseFix says what to do about an error of the database.
func databaseFix(err error) string {
	const form = "postgres://USER:PASSWORD@HOST:5432/DATABASE"
	refusal := (*pgconn.PgError)(nil)
	errors.As(err, &refusal)
	switch words := err.Error(); {
	case errors.As(err, new(*sqlstore.SchemaError)), errors.As(err, new(*sqlstore.InputError)):
		return "" // they say so themselves
	case refusal != nil && refusal.Code == "28P01":
		return "; it does not take this user with this password: write " + form + ", with special characters percent-encoded"
	case refusal != nil && refusal.Code == "28000":
		return "; it does not let this user in from here, or not without TLS: see pg_hba.conf, or add ?sslmode=require"
	case refusal != nil && refusal.Code == "3D000":
		return "; make the database with CREATE DATABASE, or name another: " + form
	case refusal != nil && refusal.Code == "42501":
		return "; let its user create tables in the schema public, or name another user: " + form
	case strings.Contains(words, "refused TLS"):
		return "; it does not speak TLS: add ?sslmode=disable"
	case strings.Contains(words, "file is not a database"):
		return "; it is a file of another kind: name another one, such as sqlite:sara-data/sara.db"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR), strings.Contains(words, "readonly"):
		return "; let this user write there, or name another file, such as sqlite:sara-data/sara.db"
	case errors.As(err, new(*pgconn.ConnectError)), errors.As(err, new(net.Error)):
		return "; see that PostgreSQL runs, and that this machine reaches it at an address like " + form
	}
	return ""
}

// archiveFix says what to do about an error of the archive's folder or bucket.
func archiveFix(err error) string {
	switch storeAnswer(err).Code {
	case "NoSuchBucket":
		return "; make the bucket, or name another: s3://BUCKET/PREFIX"
	case "AccessDenied", "AllAccessDisabled":
		return "; let these credentials read, write, list and delete the objects of the bucket"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return "; it does not know these credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to those of the store"
	case "PermanentRedirect", "AuthorizationHeaderMalformed":
		return "; the bucket is in another region: add ?region=NAME"
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		return "; let this user write there, or name another folder, such as sara-data/archive"
	}
	if errors.As(err, new(net.Error)) {
		return "; see that the store runs, and that this machine reaches it: s3://BUCKET/PREFIX?endpoint=https://HOST:PORT"
	}
	return ""
}

// isArchiveAway reports whether the store of the archive did not answer, in contrast to one that refused.
func isArchiveAway(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(net.Error)) || storeAnswer(err).StatusCode >= 500
}

// storeAnswer is what an S3 store answered, empty if it is not its answer that went wrong.
func storeAnswer(err error) (answer minio.ErrorResponse) {
	errors.As(err, &answer)
	return answer
}

// oneLine is an error without line breaks, since each line is a trouble of its own.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// openListeners opens both listeners, or tells what is wrong with each.
func (c *serveCommand) openListeners() (public, admin net.Listener, err error) {
	public, err = listen("SARA_LISTEN", c.Listen)
	admin, adminErr := listen("SARA_ADMIN_LISTEN", c.AdminListen)
	if err = errors.Join(err, adminErr); err != nil {
		closeListeners(public, admin)
		return nil, nil, err
	}
	return public, admin, nil
}

// warnOfPlans tells of accounts whose plan is not in the plan table: they have no access.
func warnOfPlans(ctx context.Context, store *sqlstore.Store, plans policy.Plans, log *slog.Logger) error {
	accounts, err := store.Accounts(ctx)
	for _, a := range accounts {
		if planErr := planKnown(plans, a.Plan); planErr != nil {
			log.WarnContext(ctx, "an account has no access: set another plan with sara account plan, or add its plan to SARA_PLANS_FILE",
				slog.String("account", a.Name), slog.Any("error", planErr))
		}
	}
	return err
}
