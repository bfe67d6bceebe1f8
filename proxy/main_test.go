package proxy

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

func TestMain(m *testing.M) {
	// Most tests wait half of the time, for a connection or a timeout. The flag's own value still wins.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	flag.Parse()
	debug.SetGCPercent(400) // tests have little in use at a time: with the default, the garbage collector takes a tenth of their time
	os.Exit(m.Run())
}
