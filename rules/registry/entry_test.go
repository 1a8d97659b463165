package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A registry returns every limit as it was given, shared or not.
func TestEveryLimitIsStoredUnchanged(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const room = 1 << 24
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
	for i := range maxShared + 100 { // more than are shared
		list = append(list, rules.Limit{Limit: headgate.Per(7, time.Duration(i+1)*time.Millisecond)})
	}
	for i, l := range list {
		if err := r.Put(rules.Client{ID: fmt.Sprint(i), Limits: []rules.Limit{l}}); err != nil {
			t.Fatalf("%+v: %v", l, err)
		}
	}
	for i, want := range list {
		id := fmt.Sprint(i)
		got, _ := r.Get(id)
		if want := (&rules.Client{ID: id, Limits: []rules.Limit{want}}).WithDefaults().Limits; !slices.Equal(got.Limits, want) {
			t.Errorf("got %+v, want %+v", got.Limits, want)
		}
	}
}

// Clients whose limits differ only in their counts share an entry. Clients with other properties or periods do not.
func TestSimilarClientsShareAnEntry(t *testing.T) {
	t.Parallel()
	client := func(id, plan string, limit headgate.Limit) rules.Client {
		return rules.Client{
			ID: id, Limits: []rules.Limit{{Limit: limit}}, Properties: []rules.Property{{Name: "plan", Value: plan}},
		}
	}
	r, err := New(
		client("a", "gold", headgate.PerHour(7)), client("b", "gold", headgate.PerHour(8)),
		client("c", "gold", headgate.PerMinute(7)), client("d", "silver", headgate.PerHour(7)),
	)
	if err != nil {
		t.Fatal(err)
	}
	first := r.Find(userAttribute, "a")
	for id, want := range map[string]bool{"b": true, "c": false, "d": false} {
		if got := r.Find(userAttribute, id).Entry == first.Entry; got != want {
			t.Errorf("%s shares the entry of a: got %v, want %v", id, got, want)
		}
	}
}

// Clients may all have different properties. Each keeps its own.
func TestManyDifferentPropertiesAreStored(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const clients = maxShared + 500
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
	for i := range clients {
		c, _ := r.Get(fmt.Sprint(i))
		if want := (rules.Property{Name: "account", Value: fmt.Sprint("a", i)}); len(c.Properties) != 1 || c.Properties[0] != want {
			t.Errorf("client %d: got %v, want %v", i, c.Properties, want)
		}
		if len(c.Limits) == 1 != (i%4 == 0) || c.Unlimited != (i%4 == 1) || c.Block != (i%4 == 2) {
			t.Errorf("client %d: got %+v", i, c)
		}
	}
}
