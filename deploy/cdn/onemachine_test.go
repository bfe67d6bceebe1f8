package cdn_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sara/cmd/sara/saratest"
)

const oneMachine = "../onemachine"

func TestUnitFileIsValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(oneMachine, "sara.service"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"EnvironmentFile=/etc/sara/sara.env", "ExecStart=/usr/local/bin/sara serve", "User=sara", "NoNewPrivileges=yes", "ProtectSystem=strict",
		"CapabilityBoundingSet=\n", "StateDirectory=sara"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The program has to exist.
	unit := strings.ReplaceAll(string(text), "/usr/local/bin/sara", "/bin/true")
	file := filepath.Join(t.TempDir(), "sara.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "sara.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// A machine is one on which sara is installed as deploy/onemachine describes, except for paths and ports.
type machine struct {
	t                *testing.T
	folder, settings string
	binary, listen   string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, folder: t.TempDir(), binary: saratest.Binary(t), listen: freeAddress(t)}
	text, err := os.ReadFile(filepath.Join(oneMachine, "sara.env"))
	if err != nil {
		t.Fatal(err)
	}
	m.settings = filepath.Join(m.folder, "sara.env")
	settings := strings.ReplaceAll(string(text), "/var/lib/sara", m.folder) + "SARA_SECRET_KEY=c2FyYSBpcyBub3Qgc2VjcmV0IGluIHRoaXMgdGVzdC4=\n" +
		"SARA_LISTEN=" + m.listen + "\nSARA_ADMIN_LISTEN=" + freeAddress(t) + "\nSARA_COLLECT=off\nSARA_INSPECT=off\n"
	if err := os.WriteFile(m.settings, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// command is a command line of sara-admin.
func (m *machine) command(args ...string) *exec.Cmd {
	m.t.Helper()
	script, err := filepath.Abs(filepath.Join(oneMachine, "sara-admin"))
	if err != nil {
		m.t.Fatal(err)
	}
	user, err := exec.CommandContext(m.t.Context(), "id", "-un").Output()
	if err != nil {
		m.t.Fatal(err)
	}
	command := exec.CommandContext(m.t.Context(), script, args...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "ADMIN_SETTINGS=" + m.settings, "ADMIN_PROGRAM=" + m.binary, "ADMIN_FOLDER=" + m.folder,
		"ADMIN_USER=" + strings.TrimSpace(string(user))}
	return command
}

func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("sara-admin %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// serve starts the service, and returns how to stop it.
func (m *machine) serve() (stop func()) {
	m.t.Helper()
	service := m.command("serve")
	service.Cancel = func() error { return service.Process.Signal(syscall.SIGTERM) }
	service.WaitDelay = patience
	log := new(strings.Builder)
	service.Stderr = log
	if err := service.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- service.Wait() }()
	poll(m.t, "sara serves", func() bool {
		response, err := http.Get("http://" + m.listen + "/v1/openapi.json")
		if err == nil {
			_ = response.Body.Close()
		}
		select {
		case err := <-ended:
			m.t.Fatalf("sara serve ended: %v\n%s", err, log)
		default:
		}
		return err == nil
	})
	return func() {
		_ = service.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			m.t.Errorf("sara serve: %v\n%s", err, log)
		}
	}
}

// TestOneMachine walks through deploy/onemachine/README.md: the first account, TLS, a backup while sara serves, and the return to it.
func TestOneMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara and nginx")
	}
	m := newMachine(t)
	site := m.startSite()
	m.run("account", "add", "Acme", "--plan", "pro")
	m.run("workspace", "add", "Acme", "Main")
	m.run("person", "add", "Acme", "ann@acme.example", "--workspace", "Main")
	var created struct{ ID, Key string }
	if err := json.Unmarshal([]byte(m.run("key", "create", "ann@acme.example", "--name", "laptop", "--json")), &created); err != nil {
		t.Fatal(err)
	}
	want := func(key string, status int) {
		t.Helper()
		a, err := ask(site.secureAsker, http.MethodGet, site.secure+"/v1/me", "Authorization", "Bearer "+key, "X-Forwarded-For", "203.0.113.9")
		if err != nil || a.status != status {
			t.Errorf("over TLS: %v, %d, want %d\n%s", err, a.status, status, a.body)
		}
	}
	stop := m.serve()
	want(created.Key, http.StatusOK)
	want(created.Key+"x", http.StatusUnauthorized)
	backup := filepath.Join(m.folder, "backup")
	m.run("backup", backup)
	check := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "-c", "SHA256SUMS")
	check.Dir = backup
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	m.run("key", "revoke", created.ID)
	poll(t, "the revoked key is refused", func() bool {
		a, err := ask(site.secureAsker, http.MethodGet, site.secure+"/v1/me", "Authorization", "Bearer "+created.Key)
		return err == nil && a.status == http.StatusUnauthorized
	})
	stop()

	m.run("restore", backup, "--force")
	if out := m.run("serve", "--check"); !strings.Contains(out, "Configuration OK.") {
		t.Errorf("serve --check:\n%s", out)
	}
	stop = m.serve()
	want(created.Key, http.StatusOK) // it was revoked after the backup
	stop()
}

// startSite runs nginx with nginx-site.conf in front of the machine.
func (m *machine) startSite() *cdn {
	m.t.Helper()
	program := findNginx(m.t)
	secure := freeAddress(m.t)
	c := &cdn{t: m.t, folder: m.t.TempDir(), secure: "https://" + secure, ended: make(chan struct{})}
	text, err := os.ReadFile(filepath.Join(oneMachine, "nginx-site.conf"))
	if err != nil {
		m.t.Fatal(err)
	}
	site := strings.NewReplacer("listen 443 ssl;", "listen "+secure+" ssl;", "listen [::]:443 ssl;", "", "127.0.0.1:8080", m.listen,
		"/etc/letsencrypt/live/api.example.com/fullchain.pem", c.folder+"/tls.crt", "/etc/letsencrypt/live/api.example.com/privkey.pem", c.folder+"/tls.key").Replace(string(text))
	c.certify()
	c.write("site.conf", []byte(site))
	c.write("nginx.conf", []byte("error_log "+c.folder+"/error.log;\nevents {}\nhttp {\n\tclient_body_temp_path "+c.folder+"/body;\n\tproxy_temp_path "+c.folder+"/proxy;\n"+
		"\tfastcgi_temp_path "+c.folder+"/fastcgi;\n\tuwsgi_temp_path "+c.folder+"/uwsgi;\n\tscgi_temp_path "+c.folder+"/scgi;\n\tinclude site.conf;\n}\n"))
	c.process = exec.CommandContext(m.t.Context(), program, "-p", c.folder, "-c", filepath.Join(c.folder, "nginx.conf"), "-e", filepath.Join(c.folder, "error.log"),
		"-g", "daemon off; user root; pid "+filepath.Join(c.folder, "nginx.pid")+";")
	output := new(strings.Builder)
	c.process.Stdout, c.process.Stderr = output, output
	c.process.Cancel = func() error { return c.process.Process.Signal(syscall.SIGTERM) }
	c.process.WaitDelay = patience
	if err := c.process.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		_ = c.process.Wait() // its exit status does not matter
	}()
	m.t.Cleanup(func() { <-c.ended })
	c.awaitListening(secure, output)
	return c
}
