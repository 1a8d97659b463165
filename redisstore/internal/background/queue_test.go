package background_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/internal/background"
)

func TestQueueRunsItemsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []int
		group := background.New(clock.System)
		q := background.NewQueue(group, 10, 1, func(i int) { got = append(got, i) })
		for i := range 3 {
			q.Add(i)
		}
		synctest.Wait()
		q.Add(3) // after the goroutine has ended
		synctest.Wait()
		if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		group.Stop()
		group.Wait() // for nothing: an idle queue has no goroutine
		if q.Add(4) {
			t.Error("Add after Stop: got true, want false")
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		group, blocked, done := background.New(clock.System), make(chan struct{}), 0
		q := background.NewQueue(group, 2, 1, func(int) { <-blocked; done++ })
		added := 0
		for i := range 5 {
			if q.Add(i) {
				added++
			}
			synctest.Wait()
		}
		if added != 3 { // one that runs, and two that wait
			t.Errorf("added %d, want 3", added)
		}
		group.Stop()
		close(blocked)
		group.Wait()
		if done != added {
			t.Errorf("%d items ran, want %d", done, added)
		}
	})
}
