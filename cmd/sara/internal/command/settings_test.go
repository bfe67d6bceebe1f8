package command

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
)

// effectiveListen returns the value of SARA_LISTEN that serve --check reports.
func effectiveListen(c *clitest.CLI, args ...string) string {
	c.T.Helper()
	for _, row := range columns(c.OK(append([]string{"serve", "--check"}, args...)...)) {
		if len(row) == 2 && row[0] == "SARA_LISTEN" {
			return row[1]
		}
	}
	c.T.Fatal("serve --check does not report SARA_LISTEN")
	return ""
}

func TestPrecedenceIsFlagEnvironmentFile(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	if got := effectiveListen(c); got != "127.0.0.1:8080" {
		t.Errorf("by default: %s", got)
	}
	file := c.Write("sara.yaml", "# comment\nlisten: 127.0.0.1:1\nadmin_listen:\n")
	other := c.Write("other.yaml", "listen: 127.0.0.1:2\n")
	if got := effectiveListen(c, "--config", file); got != "127.0.0.1:1" {
		t.Errorf("file named by flag: %s", got)
	}
	c.Env = append(c.Env, "SARA_CONFIG="+file)
	if got := effectiveListen(c); got != "127.0.0.1:1" {
		t.Errorf("file named by environment: %s", got)
	}
	if got := effectiveListen(c, "--config", other); got != "127.0.0.1:2" {
		t.Errorf("the flag names another file than the environment: %s", got)
	}
	c.Env = append(c.Env, "SARA_LISTEN=127.0.0.1:3")
	if got := effectiveListen(c); got != "127.0.0.1:3" {
		t.Errorf("environment over file: %s", got)
	}
	if got := effectiveListen(c, "--listen", "127.0.0.1:4"); got != "127.0.0.1:4" {
		t.Errorf("flag over environment and file: %s", got)
	}
	c.Env = append(c.Env, "SARA_LISTEN=")
	if got := effectiveListen(c); got != "127.0.0.1:1" {
		t.Errorf("a variable that is empty is not set: %s", got)
	}
}

func TestSettingsFileAppliesToEveryCommand(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Env = []string{"SARA_CONFIG=" + c.Write("sara.yaml",
		"database_url: sqlite:"+c.Path("sara.db")+"\nlisten: 127.0.0.1:0\nsecret_key: "+clitest.SecretKey+"\n")}
	c.OK("account", "add", "Acme", "--plan", "pro")
	if list := c.Array(accountMembers, "account", "list"); len(list) != 1 {
		t.Errorf("accounts: %v", list)
	}
}

func TestBadSettingsFiles(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for _, test := range []struct{ name, text, want string }{
		{"unknown name", "listen: x\nlisten_address: y\n", `bad.yaml: line 2: unknown setting "listen_address"`},
		{"name of the environment", "SARA_LISTEN: x\n", `bad.yaml: line 1: unknown setting "SARA_LISTEN"`},
		{"the file itself", "config: x\n", `unknown setting "config"`},
		{"twice", "listen: x\nlisten: y\n", "bad.yaml: line 2: duplicate setting listen; remove this line or line 1"},
		{"list", "listen: [hunter2]\n", "bad.yaml: line 1: setting listen is not a single value; write it like listen: VALUE"},
		{"no mapping", "hunter2\n", "bad.yaml: it is not a YAML mapping of settings, such as listen: 127.0.0.1:8080"},
		{"alias", "secret_key: *hunter2\n", "bad.yaml: a value that begins with * or & needs quotes; write settings like"},
		{"two documents", "listen: 127.0.0.1:0\n---\nreplicas: hunter2\n", "bad.yaml: it has several YAML documents: remove the lines --- between them"},
		{"no YAML in the second document", "listen: 127.0.0.1:0\n---\n\t- hunter2\n", "bad.yaml: yaml: line "},
		{"no YAML", "listen: x\n  hunter2: : y\n", "bad.yaml: yaml: line 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.T = t
			c.Fails(ExitError, []string{"account", "list", "--config", c.Write("bad.yaml", test.text)}, test.want)
		})
	}
	c.T = t
	c.Fails(ExitError, []string{"account", "list", "--config", c.Path("none.yaml")}, "SARA_CONFIG: ", "none.yaml")
	c.Fails(ExitError, []string{"account", "list", "--config", c.Write("long.yaml", strings.Repeat("#", 1<<20+1))}, "SARA_CONFIG: ",
		"long.yaml has more than 1048576 bytes")
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a value of a bad file was quoted; it may be a secret")
	}
}

func TestCheckNamesSettingAndFix(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	noPlans := c.Write("plans.yaml", "plans: {mine: {api_access: true}}\n")
	oddEvents := c.Write("anomalies.yaml", "- {id: a, start_date: yesterday}\n")
	oddPlans := c.Write("odd.yaml", "plans: {pro: {kezs: 3}}\n")
	for _, test := range []struct{ setting, value, want string }{
		{"SARA_LISTEN", "8080", `SARA_LISTEN: "8080" is not of the form HOST:PORT, such as 127.0.0.1:8080`},
		{"SARA_LISTEN", "127.0.0.1:http", `SARA_LISTEN: the port of "127.0.0.1:http" is not a number of 0 to 65535; write it like 127.0.0.1:8080`},
		{"SARA_LISTEN", "http://127.0.0.1:80", `SARA_LISTEN: "http://127.0.0.1:80" is not of the form HOST:PORT, such as 127.0.0.1:8080`},
		{"SARA_ADMIN_LISTEN", "127.0.0.1:99999",
			`SARA_ADMIN_LISTEN: the port of "127.0.0.1:99999" is not a number of 0 to 65535; write it like 127.0.0.1:9090`},
		{"SARA_DATABASE_URL", "hunter2", `SARA_DATABASE_URL: "[not shown, since it may hold a password]" is neither`},
		{"SARA_DATABASE_URL", "mysql://db/sara",
			`SARA_DATABASE_URL: "mysql://db/sara" is neither of the form sqlite:PATH nor postgres://USER:PASSWORD@HOST/DATABASE`},
		{"SARA_DATABASE_URL", "host=db password=hunter2", `SARA_DATABASE_URL: "[not shown, since it may hold a password]" is neither`},
		{"SARA_DATABASE_URL", "mysql://sara:hunter2@db/sara", `SARA_DATABASE_URL: "mysql://sara:xxxxx@db/sara" is neither`},
		{"SARA_DATABASE_URL", "postgres://sara:hunter2@127.0.0.1:1/sara?connect_timeout=1",
			"SARA_DATABASE_URL: postgres://sara:xxxxx@127.0.0.1:1/sara?connect_timeout=1: "},
		{"SARA_DATABASE_URL", "sqlite:" + filepath.Join(noPlans, "sara.db"), "SARA_DATABASE_URL: "},
		{"SARA_ARCHIVE_URL", "gs://sara/archive", "SARA_ARCHIVE_URL: gs://sara/archive: open bucket: the scheme \"gs\" is neither file nor s3"},
		{"SARA_ARCHIVE_URL", "file://sara/archive", "SARA_ARCHIVE_URL: file://sara/archive: open bucket: file://sara names a host"},
		{"SARA_ARCHIVE_URL", "s3://key:hunter2@sara", "SARA_ARCHIVE_URL: s3://key:xxxxx@sara: open bucket: credentials do not belong in the URL"},
		{"SARA_ARCHIVE_URL", "s3://sara?secret_key=hunter2", "SARA_ARCHIVE_URL: s3://sara?secret_key=xxxxx: open bucket: the parameter"},
		{"SARA_ARCHIVE_URL", "s3://sara?endpoint=https://u:hunter2@127.0.0.1:1",
			"SARA_ARCHIVE_URL: s3://sara?endpoint=https%3A%2F%2Fu%3Axxxxx%40127.0.0.1%3A1: open bucket: the endpoint must be https://host"},
		{"SARA_ARCHIVE_URL", noPlans, "SARA_ARCHIVE_URL: " + noPlans + ": open bucket: "},
		{"SARA_ARCHIVE_URL", filepath.Join(noPlans, "archive"), "SARA_ARCHIVE_URL: "},
		{"SARA_SECRET_KEY", "hunter2!", "SARA_SECRET_KEY: it is not base64; use the output of: openssl rand -base64 32"},
		{"SARA_SECRET_KEY", "aHVudGVyMg==", "SARA_SECRET_KEY: it has 7 bytes, not 32; use the output of: openssl rand -base64 32"},
		{"SARA_SECRET_KEY_PREVIOUS", "hunter2!", "SARA_SECRET_KEY_PREVIOUS: it is not base64; use the output of: openssl rand -base64 32"},
		{"SARA_SECRET_KEY_PREVIOUS", clitest.SecretKey + ",aHVudGVyMg==", "SARA_SECRET_KEY_PREVIOUS: key 2 of 2: it has 7 bytes, not 32"},
		{"SARA_SECRET_KEY_PREVIOUS", clitest.SecretKey, "SARA_SECRET_KEY_PREVIOUS: the secret key "},
		{"SARA_REDIS_URL", "127.0.0.1:6379", "SARA_REDIS_URL: the Redis URL is not a URL: write redis://HOST:6379, or rediss://:PASSWORD@HOST:6379"},
		{"SARA_REDIS_URL", "default:hunter2@redis:6379", "SARA_REDIS_URL: the Redis URL is not a URL: write redis://HOST:6379"},
		{"SARA_REDIS_URL", "http://u:hunter2@127.0.0.1:6379",
			"SARA_REDIS_URL: the Redis URL begins with neither redis:// nor rediss://: write redis://HOST:6379"},
		{"SARA_REDIS_URL", "redis://redis:6379?password=hunter2", "SARA_REDIS_URL: the Redis URL redis://redis:6379 has "},
		{"SARA_REDIS_URL", "redis://u:hunter2@127.0.0.1:1", "SARA_REDIS_URL: redis://127.0.0.1:1 does not answer: "},
		{"SARA_REDIS_URL", "redis://127.0.0.1:1?master_name=m&password=hunter2", "SARA_REDIS_URL: redis://127.0.0.1:1 does not answer: "},
		{"SARA_REDIS_CACHE_URL", "default:hunter2@redis:6379", "SARA_REDIS_CACHE_URL: the Redis URL is not a URL: write redis://HOST:6379"},
		{"SARA_REDIS_CACHE_URL", "redis://redis:6379?password=hunter2", "SARA_REDIS_CACHE_URL: the Redis URL redis://redis:6379 has "},
		{"SARA_REDIS_CACHE_BYTES", "4096", `SARA_REDIS_CACHE_BYTES: "4096" is not a size of 1MiB to 1TiB, such as 256MiB or a number of bytes`},
		{"SARA_CACHE_BYTES", "lots", `SARA_CACHE_BYTES: "lots" is not a size of 1MiB to 1TiB, such as 256MiB or a number of bytes`},
		{"SARA_CACHE_BYTES", "4096", `SARA_CACHE_BYTES: "4096" is not a size of 1MiB to 1TiB, such as 256MiB or a number of bytes`},
		{"SARA_REPLICAS", "0", `SARA_REPLICAS: "0" is not a number of 1 to 10000, such as 2: how many processes serve together`},
		{"SARA_UPSTREAM_URL", "searchconsole.googleapis.com",
			`SARA_UPSTREAM_URL: "searchconsole.googleapis.com" is not an absolute http or https URL, such as https://searchconsole.googleapis.com`},
		{"SARA_OAUTH_TOKEN_URL", "https://u:hunter2@example.com/token",
			`SARA_OAUTH_TOKEN_URL: "https://u:xxxxx@example.com/token" has more than a scheme, a host and a path; ` +
				`write it like https://oauth2.googleapis.com/token`},
		{"SARA_BASE_URL", "https://api.example.com/",
			`SARA_BASE_URL: "https://api.example.com/" ends with a slash, so paths of the API cannot be appended; leave the slash out`},
		{"SARA_BASE_URL", "https://münchen.example",
			`SARA_BASE_URL: the host of "https://münchen.example" is not in ASCII; write it as clients send it, in xn-- form`},
		{"SARA_DOCS_URL", "ftp://example.com", `SARA_DOCS_URL: "ftp://example.com" is not an absolute http or https URL, such as https://example.com/docs`},
		{"SARA_TRUSTED_PROXY_HEADER", "authorization",
			`SARA_TRUSTED_PROXY_HEADER: "authorization" has secrets, and no address; name the header that the proxy sets, such as X-Forwarded-For`},
		{"SARA_TRUSTED_PROXY_HEADER", "Forwarded",
			`SARA_TRUSTED_PROXY_HEADER: "Forwarded" has more than an address, which sara does not read; name a header with addresses alone, ` +
				`such as X-Forwarded-For`},
		{"SARA_TRUSTED_PROXY_HEADER", "X Forwarded For",
			`SARA_TRUSTED_PROXY_HEADER: "X Forwarded For" is not the name of a header, such as X-Forwarded-For`},
		{"SARA_CORS_ORIGINS", "app.example.com",
			`SARA_CORS_ORIGINS: "app.example.com" is not an origin, scheme://host[:port]; write it like https://app.example.com`},
		{"SARA_CORS_ORIGINS", "null", `SARA_CORS_ORIGINS: "null" is not an origin, scheme://host[:port]`},
		{"SARA_CORS_ORIGINS", "https://app.example.com,", `SARA_CORS_ORIGINS: "" is not an origin`},
		{"SARA_CORS_ORIGINS", "https://app.example.com, https://b.example.com/",
			`SARA_CORS_ORIGINS: "https://b.example.com/" has more than a scheme, a host and a port`},
		{"SARA_CORS_ORIGINS", "https://app.example.com?", `SARA_CORS_ORIGINS: "https://app.example.com?" has more than a scheme, a host and a port`},
		{"SARA_CORS_ORIGINS", "https://u:hunter2@example.com",
			`SARA_CORS_ORIGINS: "https://u:xxxxx@example.com" has more than a scheme, a host and a port`},
		{"SARA_CORS_ORIGINS", "https://*.example.com", `SARA_CORS_ORIGINS: the host of "https://*.example.com" must be written out, in ASCII`},
		{"SARA_CORS_ORIGINS", "https://münchen.example", `SARA_CORS_ORIGINS: the host of "https://münchen.example" must be written out, in ASCII`},
		{"SARA_CORS_ORIGINS", "https://app.example.com:99999",
			`SARA_CORS_ORIGINS: the port of "https://app.example.com:99999" is not a number of 1 to 65535`},
		{"SARA_CORS_ORIGINS", "*,https://app.example.com", `SARA_CORS_ORIGINS: "*,https://app.example.com" has * beside other origins`},
		{"SARA_KEY_PREFIX", "Acme_", `SARA_KEY_PREFIX: "Acme_" is not 1 to 20 lower-case letters and digits, such as sara`},
		{"SARA_PLANS_FILE", "/nowhere/plans.yaml",
			"SARA_PLANS_FILE: open /nowhere/plans.yaml: no such file or directory; name a YAML file like plans: {own: {requests_per_day: 5000}}"},
		{"SARA_PLANS_FILE", noPlans, "SARA_PLANS_FILE: " + noPlans + ": plan mine: keys is 0"},
		{"SARA_PLANS_FILE", oddPlans, "SARA_PLANS_FILE: " + oddPlans + ": plan pro: line 1: there is no field kezs; the fields are api_access, keys"},
		{"SARA_ANOMALIES_FILE", "/nowhere",
			"SARA_ANOMALIES_FILE: open /nowhere: no such file or directory; name a YAML or JSON file with a list of anomalies"},
		{"SARA_ANOMALIES_FILE", oddEvents, "SARA_ANOMALIES_FILE: " + oddEvents + ": anomaly 1: start_date: "},
		{"SARA_SHUTDOWN_DELAY", "10", `SARA_SHUTDOWN_DELAY: "10" is not a duration of 0s to 1h, such as 10s`},
		{"SARA_LOG_LEVEL", "loud", `SARA_LOG_LEVEL: "loud" is not one of debug, info, warn, error`},
		{"SARA_LOG_FORMAT", "xml", `SARA_LOG_FORMAT: "xml" is neither text nor json`},
		{"SARA_ACCESS_LOG_SAMPLE", "10%", `SARA_ACCESS_LOG_SAMPLE: "10%" is not a fraction of 0 to 1, such as 0.1 for one line in ten`},
		{"SARA_ACCESS_LOG_SAMPLE", "NaN", `SARA_ACCESS_LOG_SAMPLE: "NaN" is not a fraction of 0 to 1`},
		{"SARA_INSPECT", "sometimes", `SARA_INSPECT: "sometimes" is neither on nor off`},
		{"SARA_SITEMAP_ALLOW_LOOPBACK", "yes", `SARA_SITEMAP_ALLOW_LOOPBACK: "yes" is neither true nor false`},
	} {
		t.Run(test.setting+" "+test.value, func(t *testing.T) {
			c := c.With(test.setting + "=" + test.value).In(t)
			c.Fails(ExitError, []string{"serve", "--check"}, "sara: "+test.want)
		})
	}
	if strings.Contains(c.Said.String(), "hunter2") {
		t.Error("a secret was quoted")
	}
}

func TestCheckReportsAllWrongSettings(t *testing.T) {
	t.Parallel()
	clitest.New(t, sara).Fails(ExitUsage, []string{"serve", "--check", "--listen", "x", "--log-level", "loud", "--replicas", "many"},
		"sara: SARA_LISTEN (--listen): ", "sara: SARA_LOG_LEVEL (--log-level): ", "sara: SARA_REPLICAS (--replicas): ")
}

// The exit status of wrong usage is that of flags: the environment, and the contents of a file that a flag names, are no usage.
func TestWrongSettingsExitAsTheirOrigin(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	plans := c.Write("plans.yaml", "plans: {mine: {api_access: true}}\n")
	c.Fails(ExitUsage, []string{"serve", "--listen", "x"}, "sara: SARA_LISTEN (--listen): ")
	c.Fails(ExitError, []string{"serve", "--plans-file", plans}, "sara: SARA_PLANS_FILE (--plans-file): "+plans+": plan mine: ")
	c.Fails(ExitError, []string{"serve", "--anomalies-file", c.Path("none")}, "sara: SARA_ANOMALIES_FILE (--anomalies-file): ")
	c.With("SARA_LISTEN=x").Fails(ExitError, []string{"serve", "--log-level", "info"}, "sara: SARA_LISTEN: ")
	c.With("SARA_LISTEN=x").Fails(ExitUsage, []string{"serve", "--log-level", "loud"}, "sara: SARA_LISTEN: ", "sara: SARA_LOG_LEVEL (--log-level): ")
}

func TestWrongFileSettingsAreReportedWithLineAllAtOnce(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	file := c.Write("sara.yaml", "listen: x\n\nlog_level: loud\nkey_prefix: ok\n")
	c.Fails(ExitUsage, []string{"serve", "--check", "--config", file, "--replicas", "none"}, "sara: SARA_LISTEN ("+file+", line 1): ",
		"sara: SARA_LOG_LEVEL ("+file+", line 3): ", "sara: SARA_REPLICAS (--replicas): ")
	file = c.Write("sara.yaml", "one: 1\nlisten: [x]\ntwo: 2\n")
	c.Fails(ExitError, []string{"serve", "--config", file},
		file+`: line 1: unknown setting "one"`, file+": line 2: ", file+`: line 3: unknown setting "two"`,
		file+": the settings are access_log_sample, admin_listen, anomalies_file, api_key, archive_url, audit_days, base_url, ")
}

func TestCheckOfGoodSettings(t *testing.T) {
	t.Parallel()
	c := clitest.NewFresh(t, sara)
	report := c.OK("serve", "--check", "--trusted-proxy-header", "X-Real-IP", "--inspect", "on",
		"--cors-origins", "HTTPS://App.example.com:443, http://localhost:5173")
	for _, want := range []string{"Configuration OK.", "SARA_SECRET_KEY set", "SARA_TRUSTED_PROXY_HEADER X-Real-IP", "SARA_INSPECT on",
		"SARA_SITEMAP_ALLOW_LOOPBACK false"} {
		if !strings.Contains(strings.Join(strings.Fields(report), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, clitest.SecretKey) {
		t.Error("the report shows the secret key")
	}
	if made, err := filepath.Glob(c.Path("*")); err != nil || len(made) > 0 {
		t.Errorf("the check creates %v (%v)", made, err)
	}
}

func TestCheckDecryptsStoredCredentials(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it simulates Search Console")
	}
	people, _ := clitest.Simulate(t)
	c := clitest.New(t, sara).Against(people)
	c.OK("account", "add", "Acme", "--plan", "pro")
	c.OK("workspace", "add", "Acme", "Web")
	c.OK("connection", "add", "Web", "--name", "mine", "--no-verify", "--credentials", c.Path(demo.PortfolioConnection+".json"))
	c.OK("serve", "--check")
	const another = "YW5vdGhlci1rZXktb2YtdGhpcnR5LXR3by1ieXRlcyE="
	for _, check := range [][]string{{"serve", "--check"}, {"serve"}} { // serve does not start either
		c.With("SARA_SECRET_KEY="+another).Fails(ExitError, append(check, "--log-level", "error"),
			`SARA_SECRET_KEY: connection "mine": the stored credentials are sealed with the secret key `, "set SARA_SECRET_KEY or SARA_SECRET_KEY_PREVIOUS to it")
	}
	c.Env = append(c.Env, "SARA_SECRET_KEY=")
	c.Fails(ExitError, []string{"serve", "--check"}, `SARA_SECRET_KEY: connection "mine": `,
		"no secret key: set it to the key that encrypted the credentials (", "); a new one cannot open them")
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	var addresses [2]string
	for i := range addresses {
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer service.Close(taken)
		addresses[i] = taken.Addr().String()
	}
	address, admin := addresses[0], addresses[1]
	c := clitest.New(t, sara)
	c.Fails(ExitError, []string{"demo", "--listen", address},
		"--listen: "+address+" is already in use; stop the program that uses it, or choose another")
	c.Fails(ExitError, []string{"serve", "--listen", address, "--admin-listen", admin}, "SARA_LISTEN (--listen): "+address+" is already in use",
		"SARA_ADMIN_LISTEN (--admin-listen): "+admin+" is already in use")
	c.Fails(ExitError, []string{"serve", "--listen", "192.0.2.1:8080", "--admin-listen", "127.0.0.1:0"},
		"is not an address of this machine; choose one that is")
}

// TestStopBeforeServing stops a service while it starts, which must neither hang nor fail.
func TestStopBeforeServing(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	ctx, cancel := context.WithCancel(context.Background())
	var stdout, stderr stopWriter
	stdout.stop = cancel
	status := sara(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, c.Env, nil, &stdout, &stderr)
	if status != ExitOK {
		t.Errorf("status %d", status)
	}
}

// stopWriter calls stop when something is written to it.
type stopWriter struct{ stop func() }

func (w *stopWriter) Write(p []byte) (int, error) {
	if w.stop != nil {
		w.stop()
	}
	return len(p), nil
}

func TestListenersCannotShareAPort(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	for _, test := range []struct {
		public, admin string
		clash         bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true},
		{"0.0.0.0:8080", "127.0.0.1:8080", true},
		{"[::1]:8080", ":08080", true},
		{"LOCALHOST:8080", "127.0.0.1:8080", true},
		{"127.0.0.1:8080", "127.0.0.2:8080", false},
		{"127.0.0.1:8080", "127.0.0.1:8081", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
	} {
		args := []string{"serve", "--check", "--listen", test.public, "--admin-listen", test.admin}
		if test.clash {
			c.Fails(ExitUsage, args, "sara: SARA_ADMIN_LISTEN (--admin-listen): \""+test.admin+"\" has the same port as SARA_LISTEN, \""+test.public+"\"")
		} else {
			c.OK(args...)
		}
	}
}

func TestWarnsOfReplicasWithoutRedis(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	const note = "SARA_REPLICAS is 2, but without SARA_REDIS_URL each process counts for itself"
	if said := c.OK("serve", "--check", "--replicas", "2"); !strings.Contains(said, "Note: "+note) || !strings.Contains(said, "Configuration OK.") {
		t.Errorf("two replicas:\n%s", said)
	}
	if said := c.OK("serve", "--check"); strings.Contains(said, "Note: ") {
		t.Errorf("one process:\n%s", said)
	}
	c.OK("migrate")
	var said strings.Builder
	log := service.OpenLogs(&said, settings.Log{})
	budgets, err := service.OpenBudgets(t.Context(), service.BudgetConfig{Replicas: 2, Store: c.Open(time.Now), Log: log.Logger, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	budgets.Close()
	if !strings.Contains(said.String(), note) {
		t.Errorf("the log at the start:\n%s", said.String())
	}
}

func TestSecretsOnTheCommandLineAreRefused(t *testing.T) {
	t.Parallel()
	for flag, secret := range map[string]string{
		"--secret-key": clitest.SecretKey, "--secret-key-previous": clitest.SecretKey,
		"--database-url": "postgres://ann:hunter2@127.0.0.1:1/sara", "--redis-url": "redis://:hunter2@127.0.0.1:1",
		"--redis-cache-url": "redis://127.0.0.1:1?password=hunter2",
	} {
		c := clitest.New(t, sara)
		variable := "SARA_" + strings.ToUpper(strings.ReplaceAll(flag[2:], "-", "_"))
		c.Fails(ExitUsage, []string{"serve", "--check", flag, secret}, variable+" ("+flag+"): every user of this machine",
			"set "+variable+", or let "+variable+"_FILE name a file")
		if said := c.Said.String(); strings.Contains(said, "hunter2") || strings.Contains(said, clitest.SecretKey) {
			t.Errorf("%s: the secret is repeated: %s", flag, said)
		}
	}
	clitest.New(t, sara).OK("serve", "--check", "--database-url", "sqlite:"+filepath.Join(t.TempDir(), "sara.db"))
}

func TestSecretsFromFiles(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Env = slices.DeleteFunc(c.Env, func(v string) bool {
		return strings.HasPrefix(v, "SARA_SECRET_KEY=") || strings.HasPrefix(v, "SARA_DATABASE_URL=")
	})
	c.Env = append(c.Env, "SARA_SECRET_KEY_FILE="+c.Write("key", clitest.SecretKey+"\n"),
		"SARA_DATABASE_URL_FILE="+c.Write("database", "sqlite:"+c.Path("other.db")+"\r\n"))
	if shown := c.OK("serve", "--check"); !strings.Contains(shown, c.Path("other.db")) || !strings.Contains(shown, "set, id ") {
		t.Errorf("the settings in force are\n%s", shown)
	}
	for problem, variable := range map[string]string{
		"is set as well: remove one of them": "SARA_DATABASE_URL=sqlite:" + c.Path("sara.db"),
		"no such file":                       "SARA_SECRET_KEY_FILE=" + c.Path("nothing"),
		"is empty":                           "SARA_SECRET_KEY_FILE=" + c.Write("empty", "\n"),
		"more than 65536 bytes":              "SARA_REDIS_URL_FILE=" + c.Write("large", strings.Repeat("x", 65537)),
	} {
		c.With(variable).Fails(ExitError, []string{"serve", "--check"}, problem, "_FILE: ")
	}
	for setting, value := range map[string]string{"SARA_DATABASE_URL": "sqlite:" + c.Write("no folder", "") + "/sara.db",
		"SARA_SECRET_KEY": "abc", "SARA_REDIS_URL": "localhost:6379"} {
		file := setting + "_FILE"
		c.With(file+"="+c.Write("wrong", value)).Fails(ExitError, []string{"serve", "--check"}, setting+" ("+file+"): ")
	}
}

func TestCheckNamesWrongVariableOfTraces(t *testing.T) {
	t.Parallel()
	c := clitest.New(t, sara)
	c.Env = append(c.Env, "OTEL_TRACES_EXPORTER=zipkin")
	c.Fails(ExitError, []string{"serve", "--check"}, `sara: OTEL_TRACES_EXPORTER: "zipkin"`)
}
