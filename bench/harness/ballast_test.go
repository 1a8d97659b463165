package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// headgateBallast reads the ballast of the program from its source, which no other program may import; 0 if it has
// none.
func headgateBallast(t *testing.T) int {
	t.Helper()
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "server", "cmd", "headgate", "internal", "node", "run.go"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\bballastBytes = (\d+) << 20\b`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("cannot find ballastBytes in:\n%s", text)
	}
	mib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return mib << 20
}

func TestPeersCarryTheBallastOfHeadgate(t *testing.T) {
	if got, want := BallastBytes, headgateBallast(t); got != want {
		t.Errorf("peers carry %d bytes and headgate %d: who has less collects garbage more often, which is not what is compared", got, want)
	}
	t.Setenv("GOGC", "")
	err := WithBallast(func() error {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc < BallastBytes || m.NextGC < 2*BallastBytes {
			t.Errorf("the heap is of %d bytes and collected at %d, want the ballast of %d in it", m.HeapAlloc, m.NextGC, BallastBytes)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
