package wire

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A clock is what a run measures and an open loop waits by.
type clock interface {
	Now() time.Time
	Sleep(d time.Duration) error
}

// wallClock sleeps by a timer of the kernel's: the Go runtime's own are late by up to a millisecond in an idle process,
// which is longer than many an answer takes.
type wallClock struct {
	descriptor int
	timer      *os.File
}

func newWallClock() (*wallClock, error) {
	descriptor, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &wallClock{descriptor, os.NewFile(uintptr(descriptor), "timer")}, nil
}

func (c *wallClock) Close() error { return c.timer.Close() }

func (c *wallClock) Now() time.Time { return time.Now() }

func (c *wallClock) Sleep(d time.Duration) error {
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(c.descriptor, 0, &once, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	var expirations [8]byte
	_, err := c.timer.Read(expirations[:])
	return err
}
