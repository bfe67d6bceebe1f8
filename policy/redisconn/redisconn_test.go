package redisconn_test

import (
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/maintnotifications"

	"sara/policy/redisconn"
	"sara/policy/redistest"
)

func TestOpenRejectsMalformedURLsWithoutQuotingThem(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"localhost:6379", "write redis://HOST:6379, or rediss://:PASSWORD@HOST:6379"},
		{"foo", "is not a URL"},
		{"redis:6379", "write redis://HOST:6379"},
		{"redis:s3cr3tpw@redis:6379", "write redis://HOST:6379"},
		{"default:s3cr3tpw@redis:6379", "write redis://HOST:6379"},
		{"redis:s3cr3tpw@redis://redis:6379", "is not a URL"},
		{"http://u:s3cr3tpw@redis:6379", "neither redis:// nor rediss://"},
		{"redis://:6379", "names no host"},
		{"redis:///0?password=s3cr3tpw", "names no host"},
		{"redis://u:77/s3cr3tpw@redis:6379", "percent-encoded"},
		{"redis://u:77?s3cr3tpw@redis:6379", "percent-encoded"},
		{"redis://u:77#s3cr3tpw@redis:6379", "percent-encoded"},
		{"redis://u:77@s3cr3tpw@redis:6379", "percent-encoded"},
		{"redis://redis:6379#s3cr3tpw", "percent-encoded"},
		{"redis://u:s3cr3tpw", "write redis://HOST:6379"},
		{"redis://redis:6379/s3cr3tpw", "the Redis URL redis://redis:6379 has a path that is not a database number"},
		{"redis://redis:6379?password=s3cr3tpw", "the Redis URL redis://redis:6379 has "},
		{"redis://redis:6379?pool_size=s3cr3tpw", "the Redis URL redis://redis:6379 has "},
		{"redis://h?master_name=m&sentinel_password=s3cr3tpw", "the Redis URL redis://h has "},
		{"redis://h?master_name=m&replica_only=true", "invalid parameter"},
		{"redis://h?master_name=m&route_randomly=true", "invalid parameter"},
		{"redis://h?master_name=m&route_by_latency=true", "invalid parameter"},
		{"redis://:s3cr3tpw@h?addr=s3cr3tpw", "the Redis URL redis://h has "},
		{"unix://run/redis.sock", "write unix:///PATH"},
		{"unix://", "write unix:///PATH"},
		{"unix:/run/redis.sock", "is not a URL"},
	} {
		client, err := redisconn.Open(test.url, redisconn.StepTimeout)
		if client != nil || err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "77") {
			t.Errorf("%s: %v, want an error with %q", test.url, err, test.want)
		}
		if shown := redisconn.Address(test.url); err != nil && strings.Contains(err.Error()+shown, "s3cr3tpw") || shown == "" {
			t.Errorf("%s: an error shows a secret, or nothing is shown: %v; %s", test.url, err, shown)
		}
	}
}

func TestAddressHidesSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"redis://redis": "redis://redis", "rediss://u:s3cr3tpw@redis:6379/2?pool_size=3": "rediss://redis:6379",
		"redis://:s3cr3tpw@[::1]:6379":                "redis://[::1]:6379",
		"redis://h:1?master_name=m&password=s3cr3tpw": "redis://h:1",
		"unix://:s3cr3tpw@/run/redis.sock?db=1":       "unix:///run/redis.sock",
	} {
		client, err := redisconn.Open(address, redisconn.StepTimeout)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := redisconn.Address(address); got != want {
			t.Errorf("shown as %s, want %s", got, want)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Each client bounds each step, retries nothing, and sends nothing on connecting that an access control list would have to permit.
func TestClientsOfEveryKindHaveTheSameOptions(t *testing.T) {
	const step = 7 * time.Second
	for _, test := range []struct {
		url  string
		dial time.Duration
	}{
		{"redis://127.0.0.1:1", step},
		{"redis://127.0.0.1:1?addr=127.0.0.1:1", step},
		{"redis://127.0.0.1:1?master_name=m", 5 * step}, // which dials the sentinels, too
	} {
		client, err := redisconn.Open(test.url, step)
		if err != nil {
			t.Fatal(err)
		}
		options := reflect.Indirect(reflect.ValueOf(client).MethodByName("Options").Call(nil)[0])
		for name, want := range map[string]any{
			"DialTimeout": test.dial, "ReadTimeout": step, "WriteTimeout": step, "PoolTimeout": step, "ContextTimeoutEnabled": true,
			"DialerRetries": 1, "DisableIdentity": true,
		} {
			if got := options.FieldByName(name).Interface(); got != want {
				t.Errorf("%s: %s is %v, want %v", test.url, name, got, want)
			}
		}
		if retries := options.FieldByName("MaxRetries").Int(); retries > 0 {
			t.Errorf("%s: %d retries", test.url, retries)
		}
		notifications, _ := options.FieldByName("MaintNotificationsConfig").Interface().(*maintnotifications.Config)
		if notifications != nil && notifications.Mode != maintnotifications.ModeDisabled {
			t.Errorf("%s: %s notifications of maintenance", test.url, notifications.Mode)
		}
		if err := client.Ping(t.Context()).Err(); !strings.Contains(test.url, "master_name") && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s, where no server listens: %v", test.url, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The commands of a pipeline fail one by one, unless the server refuses all of them.
func TestExec(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, "--requirepass", "secret")
	for name, test := range map[string]struct {
		password string
		failed   []bool
	}{
		"a wrong command":  {"secret", []bool{false, true, false}},
		"a wrong password": {"wrong", []bool{true, true, true}},
	} {
		client, err := redisconn.Open("redis://:"+test.password+"@"+server.Addr(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		pipe := client.Pipeline()
		commands := []interface{ Err() error }{
			pipe.Set(t.Context(), "k", "text", 0), pipe.Incr(t.Context(), "k"), pipe.Get(t.Context(), "k"),
		}
		redisconn.Exec(t.Context(), pipe)
		for i, c := range commands {
			if failed := c.Err() != nil; failed != test.failed[i] {
				t.Errorf("%s: command %d: %v", name, i, c.Err())
			}
		}
	}
}
