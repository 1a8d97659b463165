package redistest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Main is a TestMain that runs more tests at the same time than there are cores, because tests mostly wait for
// servers.
func Main(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // the default
		if err := f.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
