package site

import (
	"os"
	"testing"

	"github.com/headgate/headgate/bench/stalls"
)

// TestMain lets the test binary be the process that watches a core for stalls, which it starts from its own file.
func TestMain(m *testing.M) {
	stalls.Main()
	os.Exit(m.Run())
}
