// Package clitest is what tests of sara's command lines and tests of its processes share: a CLI with a database of its own, simulated Search
// Consoles, requests to a server, and the search for secrets. It knows the commands only as a function that runs a command line, so that
// their package can use it.
package clitest

import (
	"errors"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"sara/archive/bucket/s3test"
)

// Main runs the tests of a package, and exits.
func Main(m *testing.M) {
	logging.Disable()
	// Most tests wait most of the time, for a process or a disk.
	err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	// With heaps as small as theirs, the tests and their processes would spend a third of their time on garbage collection.
	const percent = 400
	debug.SetGCPercent(percent)
	err = errors.Join(err, os.Setenv("GOGC", strconv.Itoa(percent)), s3test.SetCredentials(os.Setenv))
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
