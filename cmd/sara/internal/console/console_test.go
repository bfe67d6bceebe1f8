package console

import "testing"

func TestCommandName(t *testing.T) {
	for called, want := range map[string]string{
		"sara": "sara", "./sara": "./sara", "/sara": "/sara", "/opt/s ara/sara": "'/opt/s ara/sara'", "/tmp/go-build1/b001/exe/sara": "sara",
	} {
		if got := CommandName(called); got != want {
			t.Errorf("called as %s: %s, want %s", called, got, want)
		}
	}
}
