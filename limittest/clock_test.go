package limittest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/limittest"
)

func TestClock(t *testing.T) {
	c := limittest.NewClock()
	if !c.Now().Equal(limittest.Start) {
		t.Errorf("got %v, want %v", c.Now(), limittest.Start)
	}
	c.Advance(time.Microsecond)
	c.Advance(-time.Hour)
	if want := limittest.Start.Add(time.Microsecond - time.Hour); !c.Now().Equal(want) {
		t.Errorf("got %v, want %v", c.Now(), want)
	}
	past := time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)
	if c.Set(past); !c.Now().Equal(past) {
		t.Errorf("got %v, want %v", c.Now(), past)
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { c.Advance(time.Second) })
	}
	all.Wait()
	if want := past.Add(100 * time.Second); !c.Now().Equal(want) {
		t.Errorf("100 goroutines: got %v, want %v", c.Now(), want)
	}
}
