package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A registry returns every limit as it was given, packed into a word or not.
func TestEveryLimitIsStoredUnchanged(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const room = 1 << burstBits
	var list []rules.Limit
	for _, count := range []int64{1, 2, room - 1, room, room + 1, headgate.MaxCount} {
		for _, burst := range []int64{0, 1, room - 1, room, headgate.MaxCount} {
			for _, a := range headgate.Algorithms() {
				for _, name := range []string{"", "n"} {
					l := rules.Limit{Name: name, Limit: headgate.Limit{Algorithm: a, Count: count, Burst: burst, Period: time.Second}}
					switch a {
					case headgate.Concurrency:
						l.Period, l.TTL = 0, time.Hour
					case headgate.SlidingBuckets:
						l.Buckets = 4
					case headgate.FixedWindow:
						l.Staggered = true
					}
					if l.Validate() == nil {
						list = append(list, l)
					}
				}
			}
		}
	}
	for i := range maxShapes + 100 { // more shapes than the table holds
		list = append(list, rules.Limit{Limit: headgate.Per(7, time.Duration(i+1)*time.Millisecond)})
	}
	for i, l := range list {
		if err := r.Put(rules.Client{ID: fmt.Sprint(i), Limits: []rules.Limit{l}}); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
	}
	apart := 0
	for i, want := range list {
		id := fmt.Sprint(i)
		if r.byID(id).clientDetails != nil {
			apart++
		}
		got, _ := r.Get(id)
		if want := (&rules.Client{ID: id, Limits: []rules.Limit{want}}).WithDefaults().Limits; !slices.Equal(got.Limits, want) {
			t.Errorf("got %+v, want %+v", got.Limits, want)
		}
	}
	if apart < 100 || apart > len(list)/2 {
		t.Errorf("%d of %d limits are not packed, want at least 100 and at most half", apart, len(list))
	}
}

// A million clients with a limit of their own each take no more than 40 bytes each.
func TestClientsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const clients = 50_000
	for i := range clients {
		if err := r.Put(rules.Client{ID: fmt.Sprint(i), Limits: []rules.Limit{{Limit: headgate.PerHour(int64(i) + 1)}}}); err != nil {
			t.Fatal(err)
		}
	}
	in := r.values.cells.Load()
	bytes := len(in.list)*16 + len(in.secondHalves)*8 + len(in.overflowPages)*8
	for i := range in.overflowPages {
		if in.overflowPages[i].Load() != nil {
			bytes += overflowPageSize * 8
		}
	}
	if got := float64(bytes) / clients; got > 41 {
		t.Errorf("a client takes %.1f bytes, want at most 41", got)
	}
}

// Clients may all have different properties. Each keeps its own, and there is room left for clients without properties.
func TestManyDifferentPropertiesAreStored(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const clients = maxShapesWithProperties + 500
	limit := []rules.Limit{{Limit: headgate.PerHour(7)}}
	for i := range clients {
		c := rules.Client{ID: fmt.Sprint(i), Properties: []rules.Property{{Name: "account", Value: fmt.Sprint("a", i)}}}
		switch i % 4 {
		case 0:
			c.Limits = limit
		case 1:
			c.Unlimited = true
		case 2:
			c.Block = true
		}
		if err := r.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := 0
	for i := range clients {
		c, _ := r.Get(fmt.Sprint(i))
		if want := (rules.Property{Name: "account", Value: fmt.Sprint("a", i)}); len(c.Properties) != 1 || c.Properties[0] != want {
			t.Errorf("client %d: got %v, want %v", i, c.Properties, want)
		}
		if len(c.Limits) == 1 != (i%4 == 0) || c.Unlimited != (i%4 == 1) || c.Block != (i%4 == 2) {
			t.Errorf("client %d: got %+v", i, c)
		}
		if r.byID(fmt.Sprint(i)).word() == wordOverflow {
			elsewhere++
		}
	}
	if elsewhere != 500 {
		t.Errorf("%d clients are not packed, want 500", elsewhere)
	}
	if err := r.Put(rules.Client{ID: "none", Limits: []rules.Limit{{Limit: headgate.PerMinute(1)}}}); err != nil {
		t.Fatal(err)
	}
	if r.byID("none").clientDetails != nil {
		t.Error("a client without properties is not packed")
	}
}
