package enginestores

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// A client that was charged far above its limit is denied for a while, and then the limit changes. The debt drained at
// the old rate until the last denial, and drains at the new rate from then on.
func TestAChangedLimitKeepsADebtThatWasDenied(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		charged        int64
		denied, step   time.Duration
		level          int64 // at the change
		retry          time.Duration
	}{
		{"a tenth of the rate", "50/s burst 50", "5/s", 550, 9 * time.Second, 100 * time.Millisecond, 100, 19200 * time.Millisecond},
		{"a hundredth of the rate", "100/h burst 100", "1/h", 1000, 8 * time.Hour, 7 * time.Minute, 200, 200 * time.Hour},
		{"ten times the rate", "10/h burst 10", "100/h", 100, 5 * time.Hour, 7 * time.Minute, 50, 0},
		{"a rate that does not divide", "47/s burst 47", "7/s", 500, 9 * time.Second, 70 * time.Millisecond, 77, 71 * time.Second / 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEveryMode(t, func(t *testing.T, b *bench, mode rules.Consistency) {
				const cost = "X-Cost"
				rule := rules.Rule{
					ID: "a", Key: by(user), Limits: limits(tt.from), Consistency: mode,
					Cost: rules.Cost{ResponseHeader: cost, Estimate: 1, Max: 1000},
				}
				b.put(rule)
				request := rules.Attributes{user: "alice"}
				charged := func(string) string { return strconv.FormatInt(tt.charged, 10) }
				if err := b.on(request, engine.DecideOptions{}).Settle(context.Background(), charged); err != nil {
					t.Fatal(err)
				}
				last := time.Duration(0) // of the denials before the last one
				for at := tt.step; at < tt.denied; at += tt.step {
					last = at
					b.Advance(tt.step)
					if v := b.on(request, engine.DecideOptions{}); v.Action.Passes() {
						t.Fatalf("passed after %v, in debt", at)
					}
				}
				b.Advance(tt.denied - last)
				if v := b.on(request, engine.DecideOptions{}); v.Action.Passes() {
					t.Fatal("passed before the change, in debt")
				}
				rule.Limits = limits(tt.to)
				b.put(rule)
				want := rule.Limits[0].Capacity() - tt.level
				left := remaining(t, b.Engine, request)["a:1"]
				if mode == rules.Lease { // it asks the store once a second for a client that is denied
					from := headgate.MustParseLimit(tt.from)
					if least := want - from.Count*int64(time.Second)/int64(from.Period) - 1; left < least || left > want {
						t.Errorf("%s became %s: %d left, want %d to %d", tt.from, tt.to, left, least, want)
					}
					return
				}
				if left != want {
					t.Errorf("%s became %s: %d left, want %d", tt.from, tt.to, left, want)
				}
				v := b.on(request, engine.DecideOptions{})
				if v.Action.Passes() != (want > 0) || v.RetryAfter.Round(time.Millisecond) != tt.retry.Round(time.Millisecond) {
					t.Errorf("got %s, retry after %v, want %v", said(v), v.RetryAfter, tt.retry)
				}
			})
		})
	}
}
