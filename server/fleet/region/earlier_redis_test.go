package region

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
)

func TestConsumptionBeforeAWindowBeganCountsOnRedis(t *testing.T) {
	t.Parallel()
	nodes := redisRegions(t, 2)
	limit := headgate.MustParseLimit("100/6s sliding-window")
	takeRegion(t, nodes[0], "k", limit, 200)
	await.True(t, "the next window", func() bool { return remaining(t, nodes[0], "k", limit) > 0 })
	takeRegion(t, nodes[0], "k", limit, 3)
	await.True(t, "the total of the new window to be sent", func() bool { return nodes[0].Stats().Waiting == 0 })
	await.True(t, "one more exchange", nextExchange(nodes[0]))
	began := time.Now()
	left := remaining(t, nodes[0], "k", limit)
	passed := takeRegion(t, nodes[1], "k", limit, 100)
	meanwhile := 1 + time.Since(began)*100/limit.Period // whose weight has fallen
	if most := left + 1 + int64(meanwhile); int64(passed) > most {
		t.Errorf("passed in a region that is new: got %d, want at most %d, as the other has %d left", passed, most, left)
	}
}
