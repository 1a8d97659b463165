package redisstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

func testSplitKeysNeverExceedTheirLimitAndUseAlmostAllOfIt(t *testing.T, cluster *redistest.ClusterSet) {
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	for _, text := range []string{"1000/h", "1000/h sliding-window", "500/h burst 1000", "1000 concurrent ttl 1h"} {
		c := headgate.Check{Key: "hot " + text, Limit: headgate.MustParseLimit(text), Cost: 1, Split: 8}
		var passed atomic.Int64
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				for range 125 {
					d, err := s.Take(ctx, c)
					if err != nil {
						t.Errorf("%s: %v", text, err)
						return
					}
					if d.Limit != 1000 {
						t.Errorf("%s: limit %d, want 1000", text, d.Limit)
					}
					if d.Allowed {
						passed.Add(1)
					}
				}
			})
		}
		group.Wait()
		if got := passed.Load(); got > 1000 || got < 950 {
			t.Errorf("%s: %d passed of 2000, want almost 1000 and no more", text, got)
		}
		slots := map[int]bool{}
		for part := range 8 {
			slots[redistest.SlotOf(s.keys.Load().key(c.Owner, c.Key, part, ""))] = true
		}
		if len(slots) < 6 {
			t.Errorf("%s: the parts are in %d slots, want them apart", text, len(slots))
		}
		if err := s.Reset(ctx, c); err != nil {
			t.Fatal(err)
		}
		d := mustTake(t, s, c)
		if !d.Allowed || d.Receipt.Units != 1 {
			t.Errorf("%s: %+v after a reset, want it allowed", text, d)
		}
		if err := s.Give(ctx, c, d.Receipt); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if d := mustTake(t, s, headgate.Check{Key: c.Key, Limit: c.Limit, Split: 8}); d.Remaining != 1000 {
				t.Fatalf("%s: %d remain after all was given back, want 1000", text, d.Remaining)
			}
		}
	}
}

func TestSharesSumToTheLimit(t *testing.T) {
	for _, count := range []int64{1, 2, 7, 8, 9, 1000, 1<<40 - 1} {
		for split := range headgate.MaxSplit + 1 {
			c := headgate.Check{Key: "k", Limit: headgate.Limit{Count: count, Period: time.Hour, Burst: 3 * count / 2}, Split: split}
			parts := partsOf(&c)
			if parts < 2 {
				continue
			}
			var counts, bursts int64
			for part := range parts {
				share := shareOf(&c, parts, part).Limit
				if share.Count < 1 || c.Limit.Burst != 0 && share.Burst < 1 {
					t.Fatalf("part %d of %d of %s: %s", part, parts, c.Limit, share)
				}
				counts, bursts = counts+share.Count, bursts+share.Burst
			}
			if counts != c.Limit.Count || bursts != c.Limit.Burst {
				t.Errorf("%d parts of %s sum to %d and %d", parts, c.Limit, counts, bursts)
			}
		}
	}
}

func TestSplitKeysAreChargedInAllParts(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("800/h"), Cost: 1600, Split: 8}
	d, err := s.Charge(ctx, c)
	if err != nil || d.Allowed || d.Receipt.Units != 1600 || d.Remaining != -800 || d.Limit != 800 {
		t.Fatalf("%+v, %v, want 1600 charged and -800 to remain", d, err)
	}
	one := c
	one.Cost = 1
	for range 100 {
		if d := mustTake(t, s, one); d.Allowed {
			t.Fatalf("%+v, want a debt to deny in every part", d)
		}
	}
	if err := s.Give(ctx, c, d.Receipt); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if d := mustTake(t, s, one); !d.Allowed {
			t.Fatalf("%+v, want all to be free again", d)
		}
	}
}

func TestSplitKeysDrawOnlyPartsThatTheCostFits(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("9/h"), Cost: 2, Split: 8}
	if d := mustTake(t, s, c); !d.Allowed {
		t.Errorf("%+v, want the one part of two units to be drawn", d)
	}
	if d := mustTake(t, s, c); d.Allowed || d.RetryAfter == headgate.Never {
		t.Errorf("%+v, want it denied for a while", d)
	}
	c.Cost = 3
	if d := mustTake(t, s, c); d.RetryAfter != headgate.Never {
		t.Errorf("%+v, want it denied for good", d)
	}
}

func TestReceiptsOfRemovedPartsGiveNothing(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.MustParseLimit("8/h"), Cost: 1, Split: 8}
	var receipts []headgate.Receipt
	for range 500 {
		if d := mustTake(t, s, c); d.Allowed {
			receipts = append(receipts, d.Receipt)
		}
	}
	c.Limit = headgate.MustParseLimit("4/h")
	for _, r := range receipts {
		if r.Lease&partMask > 4 {
			if err := s.Give(ctx, c, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		if d := mustTake(t, s, c); d.Allowed {
			t.Fatalf("%+v, want refunds of other parts to free nothing", d)
		}
	}
}

func TestSplitIntoInvalidLimitsIsRefused(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	c := headgate.Check{Key: "hot", Limit: headgate.Limit{Count: 3, Period: 366 * 24 * time.Hour, Burst: 50}, Cost: 1, Split: 2}
	for range 20 {
		if _, err := s.Take(ctx, c); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Fatalf("%v, want headgate.ErrInvalidLimit each time", err)
		}
	}
}
