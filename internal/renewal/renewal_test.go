package renewal_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/clock"
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
			r.Start(clock.System, 3*time.Second, func() { n.Add(1) })
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

// A renewal in progress ends before Stop returns, so a slot that is released afterwards is not taken again.
func TestStopWaitsForARenewalInProgress(t *testing.T) {
	var r renewal.Renewal
	var done atomic.Bool
	began, goOn, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.Start(clock.System, 3*time.Millisecond, func() {
		close(began)
		<-goOn
		done.Store(true)
	})
	<-began
	go func() {
		defer close(stopped)
		r.Stop()
		if !done.Load() {
			t.Error("Stop returned during a renewal")
		}
	}()
	close(goOn)
	<-stopped
}

func TestStartingAgainAllocatesNothing(t *testing.T) {
	var r renewal.Renewal
	renew := func() {}
	r.Start(clock.System, time.Hour, renew)
	r.Stop()
	if got := testing.AllocsPerRun(100, func() { r.Start(clock.System, time.Hour, renew); r.Stop() }); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkStartStop(b *testing.B) {
	var r renewal.Renewal
	renew := func() {}
	for b.Loop() {
		r.Start(clock.System, time.Minute, renew)
		r.Stop()
	}
}
