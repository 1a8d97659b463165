package fleet

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestZZFair(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.Limit{Count: 100, Period: time.Second, Burst: 100}
		var got [3]int
		for at := time.Duration(0); at < 40*time.Second; at += 5 * time.Millisecond {
			if at == 10*time.Second {
				k, _ := all[1].KeyOf(headgate.Check{Key: "k", Limit: limit})
				sh := all[1].shardOf(&k)
				all[1].drop(sh, sh.records[k])
				all[1].forgot.Store(int64(at))
			}
			if at%(5*time.Second) == 0 {
				t.Log(at, got, all[0].remaining("k", limit), all[1].remaining("k", limit), all[2].remaining("k", limit))
				got = [3]int{}
			}
			for i, h := range all {
				got[i] += h.take("k", limit, 2)
			}
			if at%(25*time.Millisecond) == 0 {
				shareAll(all...)
			}
			clock.Advance(5 * time.Millisecond)
		}
	})
}
