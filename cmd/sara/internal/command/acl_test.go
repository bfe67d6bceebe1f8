package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sara/cmd/sara/internal/clitest"
	"sara/policy"
	"sara/policy/keyring"
	"sara/policy/redisconn"
	"sara/policy/redistest"
	"sara/proxy/cache"
	"sara/proxy/redisrows"
	"sara/translate"
)

// withAccessControl starts a Redis with an access control list of deploy/redis, and returns the URL of its user. The default user may do
// everything, for the test.
func withAccessControl(t *testing.T, file string) (server *redistest.Server, url string) {
	t.Helper()
	const password = "sesame"
	list, err := os.ReadFile(filepath.Join("../../../../deploy/redis", file))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(password))
	text := strings.NewReplacer("user default off\n", "user default on nopass ~* &* +@all\n",
		"PASSWORD_SHA256", hex.EncodeToString(sum[:])).Replace(string(list))
	path := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server = redistest.Single(t, "--aclfile", path)
	return server, "redis://sara:" + password + "@" + server.Addr()
}

// wantNothingRefused checks that a server has refused no command.
func wantNothingRefused(t *testing.T, server *redistest.Server) {
	t.Helper()
	refused, err := server.Client().ACLLog(t.Context(), 20).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refused {
		t.Errorf("refused: %s of %s (%s, %s)", r.Object, r.Username, r.Reason, r.Context)
	}
}

// noErrors shares every error.
type noErrors struct{}

func (noErrors) Encode(err error) ([]byte, bool) { return []byte(err.Error()), true }

func (noErrors) Decode(data []byte) error { return errors.New(string(data)) }

// All that sara does works as the users of the access control lists that deploy ships: the check at start, budgets with their
// restores, inspections, invalidations, and cached rows, on one Redis or on two.
func TestAccessControlListsAllowWhatSaraDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a heartbeat")
	}
	t.Parallel()
	var both sync.WaitGroup // not parallel subtests: they would start behind all other tests, and then wait for heartbeats
	for name, separate := range map[string]bool{"one Redis": false, "two": true} {
		both.Go(func() {
			t.Run(name, func(t *testing.T) { testAccessControl(t, separate) })
		})
	}
	both.Wait()
}

func testAccessControl(t *testing.T, separate bool) {
	counters, countersURL := withAccessControl(t, "counters.acl")
	environ, rowsURL := []string{"SARA_REDIS_URL=" + countersURL}, countersURL
	if separate {
		var rows *redistest.Server
		rows, rowsURL = withAccessControl(t, "rows.acl")
		environ = append(environ, "SARA_REDIS_CACHE_URL="+rowsURL)
		defer wantNothingRefused(t, rows)
	}
	useRedis(t, environ, counters, rowsURL)
	wantNothingRefused(t, counters)
}

// useRedis does what sara does with the counters and the rows of a Redis, or of two.
func useRedis(t *testing.T, environ []string, counters *redistest.Server, rowsURL string) {
	t.Helper()
	if said := clitest.New(t, sara).With(environ...).OK("serve", "--check"); strings.Contains(said, "eviction policy") {
		t.Errorf("serve --check does not see the eviction policy:\n%s", said)
	}
	var log strings.Builder
	budgets := openBudgetsOf(t, &log, parseServeIn(t, environ))
	useBudgets(t, budgets.Budget, counters)
	useCaches(t, redistest.Open(t, rowsURL))
	eventually(t, func() error { return budgets.Rows.Relieve(t.Context()) })
	eventually(t, func() error { return policy.PublishInvalidation(t.Context(), budgets.Redis) })
	eventually(t, func() error {
		_, _, err := policy.NewInspections(budgets.Redis, policy.InspectionLimits{}).Take(t.Context(), "sc-domain:example.com", 20_000)
		return err
	})
	eventually(t, func() error {
		_, err := policy.UsageOfLiveCalls(t.Context(), budgets.Redis, []string{"p"})
		return err
	})
	ctx, stop := context.WithCancel(t.Context())
	heard := make(listener, 10)
	go policy.ListenInvalidations(ctx, budgets.Redis, heard)
	<-heard // it has subscribed
	stop()
	budgets.Close()
	if strings.Contains(log.String(), "NOPERM") {
		t.Error(log.String())
	}
}

// eventually repeats what a busy machine may time out.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	var err error
	clitest.Poll(t, "what the user may do", func() bool {
		if err != nil {
			t.Log(err)
		}
		err = do()
		return err == nil
	})
}

type listener chan struct{}

func (l listener) Invalidate() { l <- struct{}{} }

func (l listener) Revalidate() { l <- struct{}{} }

// useBudgets runs every script of the budgets.
func useBudgets(t *testing.T, b policy.Budget, server *redistest.Server) {
	t.Helper()
	const account = "account"
	control, plan := server.Client(), policy.Plan{APIAccess: true, RequestsPerMinutePerKey: 100, RequestsPerHour: 100, RequestsPerDay: 100,
		SearchConsoleCallsPerDay: 100, LiveCallsPerMinutePerProperty: 100}
	for range 2 {
		if _, refusal := b.Admit(account, "key", plan); refusal != nil {
			t.Errorf("%+v", refusal)
		}
		if refusal := b.ChargeLiveCalls(account, "p", 1, plan); refusal != nil {
			t.Errorf("%+v", refusal)
		}
		b.RefundLiveCalls(account, 1, time.Now())
		clitest.Poll(t, "a heartbeat", func() bool { return control.Exists(t.Context(), "sara:replicas").Val() == 1 })
		if err := control.FlushAll(t.Context()).Err(); err != nil { // the second time, they restore
			t.Fatal(err)
		}
	}
	control.HSet(t.Context(), "sara:{yesterday}:use", "h", 1, "hn", 0, "d", 1, "dn", 0, "cn", 0, "b:another", 1)
	if _, refusal := b.Admit("yesterday", "key", plan); refusal != nil { // sweeps
		t.Errorf("%+v", refusal)
	}
	clitest.Poll(t, "the restore", func() bool { return control.HGet(t.Context(), "sara:{"+account+"}:use", "dn").Val() == "2" })
}

// useCaches shares rows and failures between two replicas.
func useCaches(t *testing.T, client redisconn.Client) {
	t.Helper()
	keys, err := keyring.New(make([]byte, keyring.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := redisrows.New(redisrows.Config{Rows: client, Lifetime: cache.MaxStale})
	if err != nil {
		t.Fatal(err)
	}
	config := cache.Config{Rows: rows, Keyring: keys, Bytes: 1 << 20, Errors: noErrors{}, RedisPatience: clitest.Hurry}
	request := cache.Request{PropertyID: "p", AccountID: "account", TTL: time.Hour,
		Query: translate.Query{Site: "sc-domain:example.com", Dimension: translate.ByQuery,
			Range: translate.DateRange{Start: translate.NewDate(2026, 10, 1), End: translate.NewDate(2026, 10, 31)}, RowLimit: translate.NarrowSample}}
	request.Fill = func(context.Context) (*translate.Rows, error) {
		return translate.ReadRows(strings.NewReader(`{"rows":[{"keys":["shoes"],"clicks":1,"impressions":2,"ctr":0.5,"position":1}]}`), translate.ByQuery)
	}
	if err := rows.Publish(t.Context(), &redisrows.Outcome{Key: "sara:c:{p}:large", Account: "account", Value: make([]byte, 1<<20),
		Lease: "sara:c:{p}:large:lease", Channel: "sara:c:notices"}); err != nil {
		t.Error(err)
	}
	for firstRows, want := range []cache.Status{cache.Filled, cache.HitShared} {
		request.FirstRows = firstRows // all, and then a page
		c, err := cache.New(config)
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.Do(t.Context(), request)
		failing := request
		failing.Query.Site, failing.Fill = "sc-domain:example.org", func(context.Context) (*translate.Rows, error) { return nil, errors.New("away") }
		if _, failure := c.Do(t.Context(), failing); err != nil || found.Status != want || failure == nil {
			t.Errorf("found %v, %v, want %v; and a failure, %v", found.Status, err, want, failure)
		}
		c.Close()
	}
}

// What sara does not do is refused, and so is what it does with keys and channels of others.
func TestAccessControlListsRefuseTheRest(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"counters.acl": {"getrange sara:directory 0 1", "set sara:directory:turn x nx px 1", "setnx sara:change x", "get sara:rest:sc-domain:example.com",
			"set sara:rest:sc-domain:example.com x px 1000", "pttl sara:rest:sc-domain:example.com", "scan 0", "unlink sara:c:{p}:0",
			"publish sara:changed x", "info"},
		"rows.acl": {"get sara:c:{p}:0", "getrange sara:c:{p}:0 0 1", "set sara:c:{p}:0:lease x px 1 nx", "scan 0", "unlink sara:c:{p}:0",
			"hget sara:{sara:cache}:sums all", "info"},
	}
	refused := []string{"flushall", "flushdb", "keys *", "config get maxmemory-policy", "config set maxmemory 1", "shutdown", "acl list", "acl whoami",
		"monitor", "client list", "client kill 127.0.0.1:1", "script flush", "function list", "module list", "replicaof no one", "save",
		"slowlog get", "randomkey", "dbsize", "rename sara:c:{p}:0 x", "migrate h 1 k 0 1", "dump sara:c:{p}:0", "restore sara:c:{p}:0 0 x",
		"eval_ro return 0", "select 1", "swapdb 0 1", "get other", "set other x", "unlink other", "hget other x", "get sar", "publish other x",
		"publish sara:other x", "subscribe other", "psubscribe *"}
	for file, commands := range allowed {
		server, url := withAccessControl(t, file)
		client := redistest.Open(t, url)
		do := func(command string) error {
			var words []any
			for word := range strings.FieldsSeq(command) {
				words = append(words, word)
			}
			return client.Do(t.Context(), words...).Err()
		}
		for _, command := range commands {
			if err := do(command); err != nil && !errors.Is(err, redis.Nil) {
				t.Errorf("%s: %s: %v", file, command, err)
			}
		}
		denied := slices.Clone(refused)
		if file == "rows.acl" {
			denied = append(denied, "get sara:{account}:use", "hget sara:{account}:use dn", "get sara:directory", "get rate:sara:live:p",
				"publish sara:changed x")
		}
		for _, command := range denied {
			if err := do(command); !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("%s: %s is not refused: %v", file, command, err)
			}
		}
		for _, script := range []string{"return redis.call('FLUSHALL')", "return redis.call('GET', 'other')", "return redis.call('CONFIG', 'GET', 'dir')"} {
			if err := client.Eval(t.Context(), script, nil).Err(); err == nil {
				t.Errorf("%s: %s is not refused", file, script)
			}
		}
		if err := server.Client().Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		stranger := redistest.Open(t, "redis://sara:guess@"+server.Addr())
		if err := stranger.Ping(t.Context()).Err(); !redis.HasErrorPrefix(err, "WRONGPASS") {
			t.Errorf("%s: with a wrong password: %v", file, err)
		}
	}
}
