package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestWhatIsGivenBackBeforeItWasToldIsNeverTold(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	a, b := all[0], all[1]
	d := takeN(t, a, "k", limit, 30)
	give(t, a, "k", limit, 20, d.Receipt)
	shareAll(all...)
	wantRemaining(t, "after giving back what was not told", "k", limit, 90, a, b)
}

func TestWhatIsGivenBackAfterItWasToldIsMadeGoodByTheNextTakes(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	a, b := all[0], all[1]
	d := takeN(t, a, "k", limit, 30)
	shareAll(all...)
	give(t, a, "k", limit, 20, d.Receipt)
	shareAll(all...)
	wantRemaining(t, "on the host that gave back", "k", limit, 90, a)
	wantRemaining(t, "on the other, as totals don't fall", "k", limit, 70, b)
	takeN(t, a, "k", limit, 25)
	shareAll(all...)
	wantRemaining(t, "after the next takes", "k", limit, 65, a, b)
}

func takeN(t *testing.T, h *host, key string, l headgate.Limit, n int64) headgate.Decision {
	t.Helper()
	d, err := h.Take(context.Background(), headgate.Check{Key: key, Limit: l, Cost: n})
	if err != nil || !d.Allowed {
		t.Fatalf("take %d: got %+v, %v", n, d, err)
	}
	return d
}

func give(t *testing.T, h *host, key string, l headgate.Limit, n int64, r headgate.Receipt) {
	t.Helper()
	if err := h.Give(context.Background(), headgate.Check{Key: key, Limit: l, Cost: n}, r); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsChargedIsToldToo(t *testing.T) {
	_, all := hosts(t, 2, false, nil)
	limit := headgate.PerHour(100)
	if _, err := all[0].Charge(context.Background(), headgate.Check{Key: "k", Limit: limit, Cost: 250}); err != nil {
		t.Fatal(err)
	}
	shareAll(all...)
	wantRemaining(t, "after a charge", "k", limit, -150, all...)
}

func TestAResetReachesAllHosts(t *testing.T) {
	modes(t, func(t *testing.T, asks bool) {
		clock, all := hosts(t, 3, asks, nil)
		limit := headgate.PerHour(100)
		for _, h := range all {
			h.take("k", limit, 60)
		}
		shareAll(all...)
		wantRemaining(t, "before", "k", limit, -80, all...)
		clock.Advance(time.Second)
		if err := all[0].Reset(context.Background(), headgate.Check{Key: "k", Limit: limit}); err != nil {
			t.Fatal(err)
		}
		shareAll(all...)
		wantRemaining(t, "after", "k", limit, 100, all...)
		all[0].take("k", limit, 1)
		all[1].take("k", limit, 2)
		shareAll(all...)
		wantRemaining(t, "after that", "k", limit, 97, all...)
	})
}
