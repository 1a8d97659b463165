package renewal_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/renewal"
)

func TestRenewsThreeTimesInATTLUntilStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r renewal.Renewal
		r.Stop() // of one that never ran
		for range 2 {
			var n atomic.Int64
			wants := func(want int64, when string) {
				t.Helper()
				synctest.Wait()
				if got := n.Load(); got != want {
					t.Errorf("%d renewals %s, want %d", got, when, want)
				}
			}
			r.Start(3*time.Second, func() { n.Add(1) })
			time.Sleep(time.Second - 1)
			wants(0, "before a third of the TTL")
			time.Sleep(9*time.Second + 1)
			wants(10, "in 10 s")
			r.Stop()
			time.Sleep(time.Minute)
			wants(10, "after Stop")
		}
	})
}

// A renewal that is under way ends before Stop returns: a slot that is given back afterwards is not taken again.
func TestStopWaitsForARenewalUnderWay(t *testing.T) {
	var r renewal.Renewal
	var done atomic.Bool
	began, goOn, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.Start(3*time.Millisecond, func() {
		close(began)
		<-goOn
		done.Store(true)
	})
	<-began
	go func() {
		defer close(stopped)
		r.Stop()
		if !done.Load() {
			t.Error("Stop returned while a renewal was under way")
		}
	}()
	close(goOn)
	<-stopped
}

func TestStartingAgainAllocatesNothing(t *testing.T) {
	var r renewal.Renewal
	renew := func() {}
	r.Start(time.Hour, renew)
	r.Stop()
	if got := testing.AllocsPerRun(100, func() { r.Start(time.Hour, renew); r.Stop() }); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkStartStop(b *testing.B) {
	var r renewal.Renewal
	renew := func() {}
	for b.Loop() {
		r.Start(time.Minute, renew)
		r.Stop()
	}
}
