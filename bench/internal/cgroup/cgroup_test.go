package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestParents(t *testing.T) {
	for _, c := range []struct {
		name, mounts, own string
		want              []parent
	}{
		{"version 1", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n", "4:memory:/a/b\n",
			[]parent{{"/sys/fs/cgroup/memory", 1}}},
		{"version 2", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "0::/user.slice/session-1.scope\n",
			[]parent{{"/sys/fs/cgroup", 2}, {"/sys/fs/cgroup/user.slice", 2}}},
		{"version 2 in a container", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "0::/\n", []parent{{"/sys/fs/cgroup", 2}}},
		{"both", "cgroup /m cgroup rw,memory 0 0\ncgroup2 /u cgroup2 rw 0 0\n", "4:memory:/a\n0::/\n", []parent{{"/m", 1}, {"/u", 2}}},
		{"neither", "tmpfs /tmp tmpfs rw 0 0\nshort\n", "", nil},
	} {
		if got := parents(c.mounts, c.own); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Both versions' files, in a folder of this test.
func TestReadings(t *testing.T) {
	for version, texts := range map[int][2]string{
		1: {"268435456\n", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"},
		2: {"268435456\n", "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n"},
	} {
		g := &Group{t.TempDir(), filesOf(version)}
		if _, err := g.Peak(); err == nil {
			t.Errorf("version %d: a peak without a file", version)
		}
		for i, name := range []string{g.peak, g.events} {
			if err := os.WriteFile(g.path(name), []byte(texts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if peak, err := g.Peak(); err != nil || peak != 256<<20 {
			t.Errorf("version %d: the peak is %d (%v)", version, peak, err)
		}
		if kills, err := g.Kills(); err != nil || kills != 2 {
			t.Errorf("version %d: %d kills (%v)", version, kills, err)
		}
	}
}

// A process that exceeds the limit of a real group is killed, and counted.
func TestLimit(t *testing.T) {
	const limit = 32 << 20
	g, err := New(limit)
	if err != nil {
		t.Skip(err)
	}
	// tail keeps all of a line without an end in memory.
	hog := exec.Command("sh", "-c", `echo $$ >"$0" && exec head -c 128M /dev/zero | tail`, g.Procs())
	hog.Stdout = nil
	err = hog.Run()
	kills, killsErr := g.Kills()
	if kills != 1 || killsErr != nil {
		t.Errorf("%d processes were killed (%v, %v)", kills, killsErr, err)
	}
	if peak, err := g.Peak(); err != nil || peak < limit/2 || peak > limit {
		t.Errorf("the peak is %d bytes (%v), the limit %d", peak, err, limit)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(g.folder); left != nil {
		t.Errorf("%v is still there", left)
	}
}
