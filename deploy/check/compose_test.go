package check

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

const composeFile = "../compose/compose.yaml"

// loadCompose loads a Compose file as docker compose does, with all profiles.
func loadCompose(text string) (*types.Project, error) {
	folder, err := filepath.Abs(filepath.Dir(composeFile))
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yaml"), Content: []byte(text)}},
		Environment: types.Mapping{}, // it must work without any variables
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
}

func compose(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadCompose(readFile(t, composeFile))
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestInvalidComposeFilesAreRejected(t *testing.T) {
	text := readFile(t, composeFile)
	check := func(before, after string) {
		t.Helper()
		if !strings.Contains(text, before) {
			t.Fatalf("%q is not in the file", before)
		}
		if _, err := loadCompose(strings.Replace(text, before, after, 1)); err == nil {
			t.Errorf("%q in place of %q is accepted", after, before)
		}
	}
	check("shm_size:", "shm_siez:")
	check("condition: service_healthy", "condition: healthy")
	check("volumes: [redis:/data,", "volumes: [reddis:/data,")
	check("networks: [edge]", "networks: [egde]")
	check("interval: 5s", "interval: soon")
}

func TestServicesAreConfined(t *testing.T) {
	for name, service := range compose(t).Services {
		if !service.ReadOnly || service.Privileged || !slices.Equal(service.CapDrop, []string{"ALL"}) ||
			!slices.Equal(service.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s has more privileges than it needs", name)
		}
		if len(service.CapAdd) > 0 && (name != "secrets" || service.NetworkMode != "none") {
			t.Errorf("%s has the capabilities %v", name, service.CapAdd)
		}
		user := service.User
		if service.Build == nil && name != "secrets" && (user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root")) {
			t.Errorf("%s runs as %q", name, user)
		}
		if !isPinned(service.Image) {
			t.Errorf("%s: the image %s is not pinned", name, service.Image)
		}
		if limits := service.Deploy; limits == nil || limits.Resources.Limits == nil || limits.Resources.Limits.MemoryBytes == 0 ||
			limits.Resources.Limits.NanoCPUs == 0 || limits.Resources.Limits.Pids == 0 {
			t.Errorf("%s has no limits", name)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is reachable from the network", name, port.Published)
			}
		}
	}
}

func TestServicesWaitForTheirDependencies(t *testing.T) {
	project := compose(t)
	for name, service := range project.Services {
		for needed, how := range service.DependsOn {
			other := project.Services[needed]
			switch how.Condition {
			case types.ServiceConditionHealthy: // the image of sara has a health check
				if other.Build == nil && other.HealthCheck == nil {
					t.Errorf("%s waits for the health of %s, which has no health check", name, needed)
				}
			case types.ServiceConditionCompletedSuccessfully:
				if other.Restart != "no" {
					t.Errorf("%s waits for the end of %s, which restarts", name, needed)
				}
			case types.ServiceConditionStarted: // a replica can start without the database
				if !strings.HasPrefix(name, "sara-") || needed != "postgres" {
					t.Errorf("%s does not wait until %s is ready", name, needed)
				}
			default:
				t.Errorf("%s does not wait until %s is ready", name, needed)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestSecretsReachOnlyTheirServices(t *testing.T) {
	for name, service := range compose(t).Services {
		for variable, value := range service.Environment {
			secret := strings.Contains(variable, "PASSWORD") || strings.Contains(variable, "SECRET") || strings.HasSuffix(variable, "_KEY")
			if secret && !strings.Contains(variable, "_FILE") || value == nil {
				t.Errorf("%s: %s is in the environment, or comes from the shell", name, variable)
			}
		}
		for _, volume := range service.Volumes {
			if !strings.HasPrefix(volume.Source, "secrets-") || name == "secrets" {
				continue
			}
			owner := strings.TrimPrefix(volume.Source, "secrets-")
			isOwners := name == owner || owner == "sara" && service.Build != nil
			if !isOwners || !volume.ReadOnly {
				t.Errorf("%s reads or writes the secrets of %s", name, owner)
			}
		}
	}
}

// testComposeFits checks that sara accepts the settings of its services, and that these are consistent.
func testComposeFits(t *testing.T, binary string) {
	project := compose(t)
	replicas := 0
	for name, service := range project.Services {
		if service.Build == nil || name == "demo" {
			continue
		}
		environment := make(map[string]string)
		for variable, value := range service.Environment {
			environment[variable] = *value
		}
		delete(environment, "SARA_CONFIG") // testSecrets covers it
		testAccepted(t, binary, environment)
		if len(service.Command) > 0 {
			continue
		}
		replicas++
		least := duration(t, environment["SARA_SHUTDOWN_DELAY"]) + drainLimit
		if service.StopGracePeriod == nil || time.Duration(*service.StopGracePeriod) < least {
			t.Errorf("%s is killed after %v, but may need %v", name, service.StopGracePeriod, least)
		}
		limit, goLimit := int64(service.Deploy.Resources.Limits.MemoryBytes), bytesOf(t, environment["GOMEMLIMIT"])
		if goLimit > limit*9/10 || bytesOf(t, environment["SARA_CACHE_BYTES"]) > goLimit/2 {
			t.Errorf("%s: GOMEMLIMIT and SARA_CACHE_BYTES do not fit into %d bytes", name, limit)
		}
		if environment["SARA_REPLICAS"] != "2" {
			t.Errorf("%s: SARA_REPLICAS is %s", name, environment["SARA_REPLICAS"])
		}
	}
	if replicas != 2 {
		t.Errorf("%d replicas", replicas)
	}
}

// TestCountersAndRowsHaveARedisEach checks that the counters' Redis never loses any, and that each has enough memory for what
// it holds, and for a copy-on-write fork or the buffers of its clients.
func TestCountersAndRowsHaveARedisEach(t *testing.T) {
	services := compose(t).Services
	for name, want := range map[string]map[string]string{
		"redis":       {"--maxmemory-policy": "noeviction", "--appendonly": "yes", "--appendfsync": "everysec"},
		"redis-cache": {"--maxmemory-policy": "allkeys-lru", "--appendonly": "no", "--save": ""},
	} {
		service := services[name]
		options := make(map[string]string)
		for i, word := range service.Command {
			if strings.HasPrefix(word, "--") && i+1 < len(service.Command) {
				options[word] = service.Command[i+1]
			}
		}
		for option, value := range want {
			if got, ok := options[option]; !ok || got != value {
				t.Errorf("%s: %s is %q, want %q", name, option, got, value)
			}
		}
		most := bytesOf(t, strings.TrimSuffix(options["--maxmemory"], "b"))
		if limit := int64(service.Deploy.Resources.Limits.MemoryBytes); most == 0 || limit < most*5/4 {
			t.Errorf("%s: %d bytes of data do not fit into %d", name, most, limit)
		}
		if name == "redis-cache" && bytesOf(t, *services["sara-1"].Environment["SARA_REDIS_CACHE_BYTES"]) > most*85/100 {
			t.Errorf("the rows do not fit into %d bytes", most)
		}
	}
	for _, replica := range []string{"sara-1", "sara-2"} {
		if services[replica].DependsOn["redis-cache"].Condition != types.ServiceConditionHealthy {
			t.Errorf("%s does not wait for redis-cache", replica)
		}
	}
}

// testSecrets creates the secrets as the first start does, and checks that sara reads them.
func testSecrets(t *testing.T, binary string) {
	folder, programs := t.TempDir(), t.TempDir()
	owners := []string{"sara", "redis", "redis-cache", "postgres", "store", "grafana"}
	for _, owner := range owners {
		if err := os.Mkdir(filepath.Join(folder, owner), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // so that the folder can be removed
		for _, owner := range owners {
			_ = os.Chmod(filepath.Join(folder, owner), 0o700)
		}
	})
	// Only root can give files to other users.
	if err := os.WriteFile(filepath.Join(programs, "chown"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Abs("../redis")
	if err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		script := exec.Command("sh", "../compose/make-secrets.sh", folder, lists)
		script.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
		if out, err := script.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v, output %q", err, out)
		}
	}
	run()
	first := readFile(t, filepath.Join(folder, "sara", "sara.yaml"))
	run()
	if readFile(t, filepath.Join(folder, "sara", "sara.yaml")) != first {
		t.Error("a second start creates new secrets")
	}
	testInterruptedSecrets(t, folder, run)
	testOlderSecrets(t, folder, first, run)
	password := readFile(t, filepath.Join(folder, "postgres", "password"))
	if len(password) < 40 || !strings.Contains(first, "://sara:"+password+"@") ||
		strings.Contains(readFile(t, filepath.Join(folder, "redis", "redis.conf")), password) {
		t.Error("the password of PostgreSQL is short, differs from sara's setting, or is that of Redis as well")
	}
	config := filepath.Join(t.TempDir(), "sara.yaml")
	nowhere := strings.NewReplacer("@postgres:5432", "@127.0.0.1:1", "@redis:6379", "@127.0.0.1:1", "@redis-cache:6379", "@127.0.0.1:1",
		"//store:7070", "//127.0.0.1:1").Replace(first)
	if err := os.WriteFile(config, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := sara(t, binary, []string{"SARA_CONFIG=" + config, "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(folder, "sara", "store")},
		"serve", "--check")
	if err == nil || strings.Count(out, "refused") != 4 || strings.Contains(out, "SARA_SECRET_KEY") || strings.Contains(out, password) {
		t.Errorf("%v, want only four refused connections:\n%s", err, out)
	}
}

// testInterruptedSecrets checks that a start gives sara the settings that an interrupted one left owned by root.
func testInterruptedSecrets(t *testing.T, folder string, run func()) {
	t.Helper()
	file := filepath.Join(folder, "sara", "sara.yaml")
	for _, path := range []string{filepath.Dir(file), file} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("after an interruption the settings are %v, %v", info, err)
	}
}

// testAccessControl checks that a Redis has the user of its list in deploy/redis, with the password from sara's setting.
func testAccessControl(t *testing.T, folder, list, url string) {
	t.Helper()
	users := readFile(t, filepath.Join(folder, "users.acl"))
	password := strings.TrimPrefix(strings.TrimSpace(readFile(t, filepath.Join(folder, "redis.conf"))), "requirepass ")
	sum := sha256.Sum256([]byte(password))
	if len(password) < 40 || !strings.Contains(url, "redis://sara:"+password+"@"+filepath.Base(folder)+":6379") {
		t.Errorf("the password of %s is short, or differs from sara's setting", filepath.Base(folder))
	}
	if users != strings.Replace(readFile(t, filepath.Join("../redis", list)), "PASSWORD_SHA256", hex.EncodeToString(sum[:]), 1) {
		t.Errorf("%s differs from %s, or has another password", users, list)
	}
}

// testOlderSecrets checks that a set from a version without a Redis for cached rows and without access control gets both, and keeps
// everything else.
func testOlderSecrets(t *testing.T, folder, settings string, run func()) {
	t.Helper()
	file := filepath.Join(folder, "sara", "sara.yaml")
	older, added, ok := strings.Cut(settings, "redis_cache_url: ")
	if !ok || strings.Contains(added[:len(added)-1], "\n") {
		t.Fatalf("the settings do not end with the Redis of cached rows")
	}
	secrets := readFile(t, filepath.Join(folder, "redis", "redis.conf"))
	for _, path := range []string{filepath.Dir(file), file} {
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Replace(older, "redis://sara:", "redis://:", 1)), 0o400); err != nil {
		t.Fatal(err)
	}
	run()
	updated := readFile(t, file)
	if !strings.HasPrefix(updated, older+"redis_cache_url: redis://sara:") || readFile(t, filepath.Join(folder, "redis", "redis.conf")) != secrets {
		t.Error("an older set loses its secrets, or does not get that of the new Redis")
	}
	testAccessControl(t, filepath.Join(folder, "redis"), "counters.acl", updated)
	testAccessControl(t, filepath.Join(folder, "redis-cache"), "rows.acl", updated)
}
