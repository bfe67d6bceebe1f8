package peer

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sara/policy/redisconn"
)

//go:embed nginx/nginx.conf
var nginxConfiguration string // a template

//go:embed nginx/gate.lua
var nginxGate []byte

//go:embed nginx/resp.lua
var nginxRESP []byte

// Nginx is nginx with Lua: an API gateway of some 200 lines.
//
// Each worker caches key records for five seconds, and all workers share an answer cache in memory; both are filled from
// Redis. One script in Redis, and so one round trip per request, checks the three limits and then charges all of them. Each
// request is logged as a line of JSON, through a buffer, as in sara.
type Nginx struct{}

var _ Peer = Nginx{}

// Where Debian installs the modules of nginx and of Lua.
const (
	nginxModules = "/usr/lib/nginx/modules"
	luaModules   = "/usr/share/lua/5.1"
)

// Name implements Peer.
func (Nginx) Name() string { return "nginx+Lua+Redis" }

// About implements Peer.
func (Nginx) About() string {
	return "hashed keys, three limits exact in Redis by one script, answers in shared memory and in Redis by account and sorted " +
		"parameters, JSON access log; no scopes, no request collapsing, no compression, 503 without Redis"
}

// Available implements Peer.
func (Nginx) Available() error {
	_, err := nginxProgram()
	files := []string{nginxModules + "/ndk_http_module.so", nginxModules + "/ngx_http_lua_module.so", luaModules + "/resty/core.lua",
		luaModules + "/resty/lrucache.lua", luaModules + "/nginx/sha256.lua"}
	for _, file := range files {
		_, missing := os.Stat(file)
		err = errors.Join(err, missing)
	}
	if err != nil {
		return fmt.Errorf("apt-get install nginx libnginx-mod-http-lua lua-resty-core lua-resty-lrucache lua-nginx-string: %w", err)
	}
	return nil
}

// nginxProgram finds nginx, even in a folder that is only in root's PATH.
func nginxProgram() (path string, err error) {
	if path, err = exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/nginx")
}

// Start implements Peer.
func (Nginx) Start(ctx context.Context, s Setup) (_ *Running, err error) {
	program, err := nginxProgram()
	if err != nil {
		return nil, err
	}
	r, port, err := s.open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start nginx: %w", err), r.Stop())
		}
	}()
	host, redisPort, err := net.SplitHostPort(s.Redis)
	if err != nil {
		return nil, fmt.Errorf("address of Redis: %w", err)
	}
	values := map[string]any{"Modules": nginxModules, "RedisHost": host, "RedisPort": redisPort, "Port": port, "Origin": r.origin.address, "Log": s.Log}
	err = errors.Join(s.configure("nginx.conf", nginxConfiguration, values), s.write("gate.lua", nginxGate), s.write("resp.lua", nginxRESP),
		s.write("admit.lua", admitScript), os.Mkdir(filepath.Join(s.Folder, "temp"), 0o755), storeKey(ctx, s))
	if err != nil {
		return nil, err
	}
	return r, r.serve(ctx, s, program, "-p", s.Folder, "-c", "nginx.conf", "-e", "error.log")
}

// storeKey writes the key record that gate.lua reads.
func storeKey(ctx context.Context, s Setup) (err error) {
	store, err := redisconn.Open("redis://"+s.Redis, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	digest := sha256.Sum256([]byte(s.Key))
	record := []any{"id", "key-1", "account", account, "per_minute", s.Limits.PerMinute, "per_hour", s.Limits.PerHour, "per_day", s.Limits.PerDay}
	if err := store.HSet(ctx, "key:"+string(digest[:]), record...).Err(); err != nil {
		return fmt.Errorf("store the key: %w", err)
	}
	return nil
}
