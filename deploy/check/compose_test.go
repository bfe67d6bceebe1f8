package check

import (
	"context"
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

// loadCompose reads a compose file as docker compose does, all of its profiles.
func loadCompose(text string) (*types.Project, error) {
	folder, err := filepath.Abs(filepath.Dir(composeFile))
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yaml"), Content: []byte(text)}},
		Environment: types.Mapping{}, // it has to work without any
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

func TestWhatIsNoComposeFileIsFoundOut(t *testing.T) {
	text := readFile(t, composeFile)
	check := func(before, after string) {
		t.Helper()
		if !strings.Contains(text, before) {
			t.Fatalf("%q is not in the file", before)
		}
		if _, err := loadCompose(strings.Replace(text, before, after, 1)); err == nil {
			t.Errorf("%q in the place of %q is taken for right", after, before)
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
			t.Errorf("%s may more than it needs", name)
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
				t.Errorf("%s: port %s is open to the network", name, port.Published)
			}
		}
	}
}

func TestServicesWaitForWhatTheyNeed(t *testing.T) {
	project := compose(t)
	for name, service := range project.Services {
		for needed, how := range service.DependsOn {
			other := project.Services[needed]
			switch how.Condition {
			case types.ServiceConditionHealthy: // the image of sara has its own check
				if other.Build == nil && other.HealthCheck == nil {
					t.Errorf("%s waits for the health of %s, which has no check", name, needed)
				}
			case types.ServiceConditionCompletedSuccessfully:
				if other.Restart != "no" {
					t.Errorf("%s waits for the end of %s, which is started again", name, needed)
				}
			default:
				t.Errorf("%s does not wait until %s can be used", name, needed)
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

func TestEachSecretGoesToItsServicesOnly(t *testing.T) {
	for name, service := range compose(t).Services {
		for variable, value := range service.Environment {
			secret := strings.Contains(variable, "PASSWORD") || strings.Contains(variable, "SECRET") || strings.HasSuffix(variable, "_KEY")
			if secret && !strings.Contains(variable, "_FILE") || value == nil {
				t.Errorf("%s: %s is in the environment, or depends on who starts it", name, variable)
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

// testComposeFits has sara accept the settings of its services, which have to fit together.
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
		delete(environment, "SARA_CONFIG") // testSecrets has one
		testAccepted(t, binary, environment)
		if len(service.Command) > 0 {
			continue
		}
		replicas++
		least := duration(t, environment["SARA_SHUTDOWN_DELAY"]) + drainLimit
		if service.StopGracePeriod == nil || time.Duration(*service.StopGracePeriod) < least {
			t.Errorf("%s is killed after %v, and may need %v", name, service.StopGracePeriod, least)
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

// testSecrets makes the secrets as the first start does, and has sara read them.
func testSecrets(t *testing.T, binary string) {
	folder, programs := t.TempDir(), t.TempDir()
	for _, owner := range []string{"sara", "redis", "postgres", "store", "grafana"} {
		if err := os.Mkdir(filepath.Join(folder, owner), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // or the folder could not be removed
		for _, owner := range []string{"sara", "redis", "postgres", "store", "grafana"} {
			_ = os.Chmod(filepath.Join(folder, owner), 0o700)
		}
	})
	// Giving files to others is for root only.
	if err := os.WriteFile(filepath.Join(programs, "chown"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		script := exec.Command("sh", "../compose/make-secrets.sh", folder)
		script.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
		if out, err := script.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%v, and it prints %q", err, out)
		}
	}
	run()
	first := readFile(t, filepath.Join(folder, "sara", "sara.yaml"))
	run()
	if readFile(t, filepath.Join(folder, "sara", "sara.yaml")) != first {
		t.Error("a second start makes other secrets")
	}
	password := readFile(t, filepath.Join(folder, "postgres", "password"))
	if len(password) < 40 || !strings.Contains(first, "://sara:"+password+"@") || strings.Contains(readFile(t, filepath.Join(folder, "redis", "redis.conf")), password) {
		t.Error("PostgreSQL has a password that is short, not that of sara, or also that of Redis")
	}
	config := filepath.Join(t.TempDir(), "sara.yaml")
	nowhere := strings.NewReplacer("@postgres:5432", "@127.0.0.1:1", "@redis:6379", "@127.0.0.1:1", "//store:7070", "//127.0.0.1:1").Replace(first)
	if err := os.WriteFile(config, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := sara(t, binary, []string{"SARA_CONFIG=" + config, "AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(folder, "sara", "store")}, "serve", "--check")
	if err == nil || strings.Count(out, "refused") != 3 || strings.Contains(out, "SARA_SECRET_KEY") || strings.Contains(out, password) {
		t.Errorf("%v, want only that three do not answer:\n%s", err, out)
	}
}
