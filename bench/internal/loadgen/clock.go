package loadgen

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A clock is the time that a run measures with, and that an open loop sleeps by.
type clock interface {
	Now() time.Time
	Sleep(d time.Duration) error
}

// timer sleeps with a timer of the kernel. Timers of the Go runtime fire up to a millisecond late in an idle process, longer
// than many answers take.
type timer struct {
	descriptor int
	file       *os.File
}

func newTimer() (*timer, error) {
	descriptor, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &timer{descriptor, os.NewFile(uintptr(descriptor), "timer")}, nil
}

func (t *timer) Close() error { return t.file.Close() }

func (t *timer) Now() time.Time { return time.Now() }

func (t *timer) Sleep(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(t.descriptor, 0, &once, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	var expirations [8]byte
	_, err := t.file.Read(expirations[:])
	return err
}
