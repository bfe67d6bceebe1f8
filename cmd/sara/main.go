package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/redis/go-redis/v9/logging"

	"sara/cmd/sara/internal/command"
)

// The linker sets them (-X main.version=v1.2.3) in releases, and in builds without version control, such as those of images. Nothing
// else writes them.
var version, revision, committed string

func main() {
	ctx := untilSignal(os.Interrupt, syscall.SIGTERM)
	raiseGOMAXPROCS(os.Getenv("GOMAXPROCS"))
	limitMemory(os.Getenv("GOMEMLIMIT"), memlimit.FromCgroup)
	raiseHeapGoal(os.Getenv("GOGC"), debug.SetMemoryLimit(-1), debug.SetGCPercent)
	if err := protectMemory(); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "sara: %v\n", err)
		os.Exit(command.ExitError)
	}
	logging.Disable() // sara logs one line per outage; the library would print one per connection
	sara := command.Program{Name: os.Args[0], Version: version, Revision: revision, Committed: committed}
	os.Exit(sara.Run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// untilSignal returns a context that ends with the first of the signals. The handler is removed before, so that a second
// signal kills a process that is visibly stopping.
func untilSignal(signals ...os.Signal) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	first := make(chan os.Signal, 1)
	signal.Notify(first, signals...)
	go func() {
		received := <-first
		signal.Stop(first)
		cancel(command.Interruption{Signal: received})
	}()
	return ctx
}
