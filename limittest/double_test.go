package limittest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// send is code to test: it sends a mail unless there were too many.
func send(mails *headgate.Bound, to string) string {
	if !mails.Allow(to) {
		return "later"
	}
	return "sent"
}

func ExampleAllowing() {
	fmt.Println(send(headgate.MustBind(limittest.Allowing(), headgate.PerHour(1)), "alice"))
	// Output: sent
}

func ExampleDenying() {
	limiter := limittest.Denying(time.Minute)
	fmt.Println(send(headgate.MustBind(limiter, headgate.PerHour(1)), "alice"))
	// Output: later
}

func ExampleRecorder() {
	recorder := limittest.NewRecorder(limittest.Allowing())
	send(headgate.MustBind(recorder, headgate.PerHour(1)), "alice")
	for _, call := range recorder.Calls() {
		fmt.Println(call.Method, call.Checks[0].Key, call.Checks[0].Limit)
	}
	// Output: Take alice 1/h
}

// In a bubble of testing/synctest the time of a memstore.Store passes only while all goroutines wait, so that a test of
// an hour ends at once.
func TestLimitsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		mails := headgate.MustBind(store, headgate.PerHour(1))
		if got := send(mails, "alice"); got != "sent" {
			t.Errorf("the first mail: got %q, want sent", got)
		}
		start := time.Now()
		if err := mails.Wait(t.Context(), "alice"); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("waited %v, want 1h", took)
		}
	})
}

func TestDoublesRefuseInvalidChecks(t *testing.T) {
	var none context.Context
	good := headgate.Check{Key: "alice", Limit: headgate.PerHour(1), Cost: 1}
	for _, l := range []headgate.Limiter{limittest.Allowing(), limittest.Denying(time.Second)} {
		if _, err := l.Take(t.Context(), headgate.Check{Key: "alice", Limit: good.Limit}); !errors.Is(err, headgate.ErrInvalidCheck) {
			t.Errorf("Take without a cost: got %v, want %v", err, headgate.ErrInvalidCheck)
		}
		if _, err := l.TakeAll(t.Context(), []headgate.Check{good, good}, nil); !errors.Is(err, headgate.ErrInvalidCheck) {
			t.Errorf("TakeAll of a key twice: got %v, want %v", err, headgate.ErrInvalidCheck)
		}
		if err := l.Reset(none, good); !errors.Is(err, headgate.ErrNilContext) {
			t.Errorf("Reset with a nil context: got %v, want %v", err, headgate.ErrNilContext)
		}
	}
}

func TestScriptOfAProgram(t *testing.T) {
	limittest.RunScript(t, "mails.txt", `
case one mail an hour, and two at once after a pause
limit 1/h burst 2
at 0s take alice 2 -> allow remaining=0
at 59m take alice 1 -> deny retry=1m
at 1h take alice 1 -> allow remaining=0
`, func(_ testing.TB, now func() time.Time) headgate.Limiter {
		store := memstore.MustNew(memstore.Options{Now: now})
		t.Cleanup(func() { store.Close() })
		return store
	})
}
