package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

func TestFlushedScriptsChangeNothing(t *testing.T) {
	t.Parallel()
	testFlushes(t, time.Second)
}

// testFlushes flushes scripts every second, and then every 50 ms, each for so long, or twice if that is longer.
func testFlushes(t *testing.T, lasting time.Duration) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	store := openStore(t, server.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	c := newCrowd(t, g, store, newAccounts(60), 32, 10*time.Millisecond)
	flushes := 0
	for _, every := range []time.Duration{time.Second, 50 * time.Millisecond} {
		for end := time.Now().Add(max(lasting, 2*every)); time.Now().Before(end); flushes++ {
			sent := server.CommandStats()["eval"]
			server.FlushScripts()
			time.Sleep(every)
			await.NoError(t, "not so yet", func() error { // on a busy machine nobody may have asked yet
				if server.CommandStats()["eval"] == sent {
					return fmt.Errorf("no script was sent again after flush %d", flushes)
				}
				return nil
			})
		}
	}
	c.stop()
	excess := c.wantAtMost(0)
	c.wantMost(everybody)
	if n := c.wantCounted(); n > 0 {
		t.Errorf("%d decisions are degraded", n)
	}
	stats := server.CommandStats()
	t.Logf("%d flushes, %d asked, %d taken, at most %d beyond burst + rate·t; the server counts %d evalsha and %d eval",
		flushes, c.asked.Load(), c.taken(), excess, stats["evalsha"], stats["eval"])
}
