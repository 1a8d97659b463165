package limittest_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// cooldown is an algorithm of a program: units count until a key has taken nothing for a Period. Its numbers are the time
// of the latest take, the units that count, and the time at which the first of them was taken.
type cooldown struct{}

func (cooldown) Used(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
	if now >= s[0]+l.Period.Microseconds() {
		return 0
	}
	return s[1]
}

func (c cooldown) Take(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
	used := c.Used(l, s, now)
	if used == 0 {
		s[2] = now
	}
	return algorithm.Numbers{now, used + n, s[2]}
}

func (cooldown) Give(_ headgate.Limit, s algorithm.Numbers, _, n, taken int64) algorithm.Numbers {
	if taken >= s[2] { // else they had expired before the others were taken
		s[1] = max(0, s[1]-n)
	}
	return s
}

// testCooldown is named TestCooldown in a program. RunAlgorithm checks what holds for every algorithm, and the script
// what this one decides.
func testCooldown(t *testing.T) {
	limittest.RunAlgorithm(t, cooldown{})
	limittest.RunScript(t, "cooldown.txt", `
		case every take begins another period
		limit 2/m custom-0
		at 0s take alice 1 -> allow remaining=1 reset=1m
		at 50s take alice 1 -> allow remaining=0 reset=1m
		at 109s take alice 1 -> deny retry=1s
		at 110s take alice 1 -> allow remaining=1

		case expired units are not given back
		limit 2/m custom-0
		at 0s take alice 2 as old -> allow
		at 70s take alice 2 -> allow
		at 71s give alice 2 of old
		at 72s take alice 1 -> deny`,
		func(t testing.TB, now func() time.Time) headgate.Limiter {
			store := memstore.MustNew(memstore.Options{
				Now: now, Algorithms: map[headgate.Algorithm]algorithm.Custom{headgate.FirstCustom: cooldown{}},
			})
			t.Cleanup(func() { store.Close() })
			return store
		})
}

// An algorithm of your own has two tests.
func ExampleRunAlgorithm() {
	_ = testCooldown // go test calls it
	// Output:
}
