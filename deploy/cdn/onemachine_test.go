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
	for _, want := range []string{"Type=notify", "EnvironmentFile=/etc/sara/sara.env", "ExecStart=/usr/local/bin/sara serve", "User=sara",
		"NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=\n", "StateDirectory=sara"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the unit lacks %s", want)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	// The program must exist.
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
	base             string // the URL of listen
	asker            *http.Client
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, folder: t.TempDir(), binary: saratest.Binary(t), listen: freeAddress(t), asker: client("127.0.0.1")}
	m.base = "http://" + m.listen
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

// connect stores credentials, unverified, from standard input.
func (m *machine) connect() {
	m.t.Helper()
	command := m.command("connection", "add", "Main", "--credentials", "-", "--name", "google", "--no-verify")
	command.Stdin = strings.NewReader(`{"type":"authorized_user","client_id":"id","client_secret":"made up","refresh_token":"made up"}`)
	if out, err := command.CombinedOutput(); err != nil {
		m.t.Fatalf("connection add: %v\n%s", err, out)
	}
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
		response, err := http.Get(m.base + "/v1/openapi.json")
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

// TestOneMachine walks through deploy/onemachine/README.md: the first account, TLS, a backup while sara is running, and a rollback to it.
func TestOneMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara, nginx and Caddy")
	}
	m := newMachine(t)
	if out := m.run("account", "add", "Acme", "--plan", "own"); !strings.Contains(out, "\n  sara-admin workspace add Acme Main\n") {
		t.Errorf("the hint is for another program than sara-admin:\n%s", out)
	}
	m.run("workspace", "add", "Acme", "Main")
	m.run("person", "add", "Acme", "ann@acme.example", "--workspace", "Main")
	m.connect()
	var created struct{ ID, Key string }
	if err := json.Unmarshal([]byte(m.run("key", "create", "ann@acme.example", "--name", "laptop", "--json")), &created); err != nil {
		t.Fatal(err)
	}
	stop := m.serve()
	t.Run("nginx", func(t *testing.T) { m.startNginxSite(t).wantSite(m, created.Key, "127.0.0.2", "127.0.0.3") })
	t.Run("Caddy", func(t *testing.T) { m.startCaddySite(t).wantSite(m, created.Key, "127.0.0.4", "127.0.0.5") })

	backup := filepath.Join(m.folder, "backup")
	m.run("backup", backup)
	check := exec.CommandContext(t.Context(), "sha256sum", "--quiet", "-c", "SHA256SUMS")
	check.Dir = backup
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	m.run("key", "revoke", created.ID)
	poll(t, "the revoked key is refused", func() bool {
		a, err := ask(m.asker, http.MethodGet, m.base+"/v1/me", "Authorization", "Bearer "+created.Key)
		return err == nil && a.status == http.StatusUnauthorized
	})
	stop()

	m.run("restore", backup, "--force")
	if out := m.run("serve", "--check"); !strings.Contains(out, "Configuration OK.") {
		t.Errorf("serve --check:\n%s", out)
	}
	stop = m.serve()
	a, err := ask(m.asker, http.MethodGet, m.base+"/v1/me", "Authorization", "Bearer "+created.Key)
	if err != nil || a.status != http.StatusOK { // it was revoked after the backup
		t.Errorf("after the restore: %v, %d\n%s", err, a.status, a.body)
	}
	stop()
}
