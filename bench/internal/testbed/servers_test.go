package testbed

import (
	"os/exec"
	"syscall"
	"testing"
)

// A process that has ended does not keep the others from being signalled, and is not an error.
func TestSignalAllPassesOverProcessesThatHaveEnded(t *testing.T) {
	ended, running := exec.Command("true"), exec.Command("sleep", "60")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	err := signalAll([]int{ended.Process.Pid, running.Process.Pid}, syscall.SIGTERM)
	if err != nil {
		t.Error(err)
		_ = running.Process.Kill()
	}
	_ = running.Wait() // it was terminated
	if status := running.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("the other one ended by %v", status.Signal())
	}
}
