package ledger

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
)

// backAtOnce are members of whom one comes back while they are counted.
type backAtOnce struct{ back func() }

func (b backAtOnce) Live() int {
	b.back()
	return 2
}

func (b backAtOnce) Known() int { return 2 }

// A check that is denied because peers are unreachable stays denied if they become reachable at that moment.
func TestReturningNodesAllowOnlyWhatWasTaken(t *testing.T) {
	t.Parallel()
	var h *host
	_, all := hosts(t, 1, false, func(o *fleet.LedgerOptions) {
		o.Members = backAtOnce{func() { h.SetUnreachable(false, 0) }}
	})
	h = all[0]
	h.SetUnreachable(true, 0)
	limit := headgate.PerSecond(10)
	got, err := h.TakeAll(context.Background(), []headgate.Check{
		{Key: "a", Limit: limit, Cost: 1, OnFailure: headgate.Closed},
		{Key: "b", Limit: limit, Cost: 1, OnFailure: headgate.Local},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Allowed && got[0].Receipt.Units == 0 {
		t.Errorf("got %+v: allowed, and nothing was taken", got[0])
	}
}
