package gateway

import (
	"testing"
	"time"
)

func TestResponsesOf5xxCountOnlyIfConfigured(t *testing.T) {
	for _, counts := range []bool{false, true} {
		c := before("http://127.0.0.1:1", "http://127.0.0.1:2")
		c.Routes[0].Ejection = Ejection{After: 2, For: time.Minute, Count5xx: counts, SlowReturn: -1}
		g := create(t, c)
		rt := g.routes.all[0]
		ejections := 0
		for range 5 {
			if rt.recordResponse(rt.upstreams[0], 503, &g.clock) {
				ejections++
			}
		}
		if got := rt.balance.Stats(0, g.clock.Now()).Ejected; got != counts || counts != (ejections == 1) {
			t.Errorf("Count5xx %v: ejected %v, reported %d times", counts, got, ejections)
		}
	}
}
