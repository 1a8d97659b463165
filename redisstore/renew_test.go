package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// The slots of a key that is split are renewed in the parts that have them.
func TestSlotsOfASplitKeyAreRenewedInTheirPart(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	clock := limittest.NewClock()
	s := apart(open(t, server.URL(), Options{Secret: testSecret}), clock.Now)
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("4 concurrent ttl 10s"), Cost: 1, Split: 2}
	var receipts []headgate.Receipt
	for range 100 {
		d, err := s.Take(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			receipts = append(receipts, d.Receipt)
		}
	}
	if len(receipts) != 4 {
		t.Fatalf("%d slots taken, want 4", len(receipts))
	}
	for range 5 {
		clock.Advance(8 * time.Second)
		for _, r := range receipts {
			if held, err := s.Renew(t.Context(), c, r); !held || err != nil {
				t.Fatalf("renew: got %v, %v, want it to be held", held, err)
			}
		}
		if d, err := s.Take(t.Context(), c); err != nil || d.Allowed {
			t.Fatalf("a fifth while four are renewed: got %+v, %v, want a denial", d, err)
		}
	}
	gone := receipts[0]
	gone.Lease = gone.Lease&^partMask | 60
	if held, err := s.Renew(t.Context(), c, gone); held || err != nil {
		t.Errorf("of a part that there is not: got %v, %v, want it not to be held", held, err)
	}
}
