//go:build !race

package api_test

import (
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/edit"
)

// heapPeak returns the most bytes of the heap that were in use during f, and those that are in use after it, both
// beyond those before it. The collector runs often, so that garbage is a small part.
func heapPeak(f func()) (most, kept int) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	inUse := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	runtime.GC()
	before := inUse()
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			most = max(most, inUse()-before)
			select {
			case <-done:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	f()
	close(done)
	watching.Wait()
	runtime.GC()
	return most, inUse() - before
}

func TestTenThousandRulesTakeAtMost64MB(t *testing.T) {
	s := open(t, api.Config{})
	body := rulesOf(10_000)
	for _, path := range []string{"/v1/validate", "/v1/rules:apply"} {
		most, kept := heapPeak(func() { s.call("POST", path, body).wants(200) })
		t.Logf("%s: %d KiB at most, of which %d KiB are kept", path, most>>10, kept>>10)
		if got := most - max(kept, 0); got > 64<<20 {
			t.Errorf("%s: %d MB for the request, want at most 64", path, got>>20)
		}
	}
}

func TestPruningImportTakesAtMost64MB(t *testing.T) {
	set := edit.NewIDSet(api.MaxImportPruned)
	most, _ := heapPeak(func() {
		for i := range api.MaxImportPruned {
			if err := set.Add("client-" + strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%d ids: %d KiB", set.Len(), most>>10)
	if most > 64<<20 {
		t.Errorf("got %d MB, want at most 64", most>>20)
	}
	if err := set.Add("one more"); err == nil {
		t.Error("one more is taken, want an error")
	}
}
