package limittest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// The test of a Limiter is one function, named TestConformance, say. The suite asks it for many limiters, and sets their
// clock.
func ExampleRun() {
	testConformance := func(t *testing.T) {
		limittest.Run(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
			store, err := memstore.New(memstore.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		})
	}
	_ = testConformance // go test calls it
	// Output:
}

// A Clock stands still until it is set, which makes the time part of a test.
func ExampleClock() {
	clock := limittest.NewClock()
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		fmt.Println(err)
		return
	}
	daily, err := store.Bind(headgate.MustParseLimit("1/d fixed-window"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(clock.Now().Format(time.DateTime), daily.Allow("alice"))
	clock.Advance(24*time.Hour - time.Microsecond)
	fmt.Println(clock.Now().Format(time.DateTime), daily.Allow("alice"))
	clock.Advance(time.Microsecond)
	fmt.Println(clock.Now().Format(time.DateTime), daily.Allow("alice"))
	if err := store.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 2026-01-01 00:00:00 true
	// 2026-01-01 23:59:59 false
	// 2026-01-02 00:00:00 true
}
