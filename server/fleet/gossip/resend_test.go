package gossip

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// With many hosts, each of them may have sent the same keys recently.
func TestRankingCountsKeysOfManyHostsOnce(t *testing.T) {
	const size, hosts = 8, 40
	ranking := weightRanking{size: size}
	for range hosts {
		for key := range size / 2 {
			ranking.add(&tally.Tally{Key: keyOf(key), Limit: headgate.PerSecond(100), Level: int64(10 + key)})
		}
	}
	if got := len(ranking.keys()); got != size/2 {
		t.Errorf("got %d keys, want %d", got, size/2)
	}
}

func TestRankingKeepsTheHeaviestKeys(t *testing.T) {
	const size = 8
	ranking := weightRanking{size: size}
	for key := range 10 * size {
		ranking.add(&tally.Tally{Key: keyOf(key), Limit: headgate.PerSecond(100), Level: int64(1 + key)})
	}
	keys := ranking.keys()
	if len(keys) != size {
		t.Fatalf("got %d keys, want %d", len(keys), size)
	}
	for i, key := range keys {
		if want := keyOf(10*size - 1 - i); key != want {
			t.Errorf("rank %d: got key %s, want %s", i, key, want)
		}
	}
}
