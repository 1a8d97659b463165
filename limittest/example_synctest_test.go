package limittest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// testDailyQuota is named TestDailyQuota in a program. In the bubble, time passes only while all goroutines wait, so the
// test takes no time, and the store needs no clock.
func testDailyQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		quota := headgate.MustBind(store, headgate.MustParseLimit("1/d burst 1"))
		if !quota.Allow("alice") || quota.Allow("alice") {
			t.Error("want one request to pass")
		}
		time.Sleep(24 * time.Hour)
		if !quota.Allow("alice") {
			t.Error("want another one to pass after a day")
		}
	})
}

// Code that is limited can be tested in a bubble of testing/synctest.
func Example_synctest() {
	_ = testDailyQuota // go test calls it
	// Output:
}
