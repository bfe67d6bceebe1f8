package redisconn_test

import (
	"strings"
	"testing"

	"sara/policy/redisconn"
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
