package registry

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

var apiKey = headgate.Attribute{Kind: headgate.AttrAPIKey}

func headerOf(name string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrHeader, Name: name}
}

// After any sequence of changes, a registry finds the same clients as a map of all values.
func TestRegistryAgreesWithAMap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	type value struct {
		a    headgate.Attribute
		text string
	}
	clients, owners := map[string][]value{}, map[value]string{}
	valuesOf := func(c *rules.Client) []value {
		if len(c.Attributes) == 0 {
			return []value{{userAttribute, c.ID}}
		}
		var list []value
		for _, test := range c.Attributes {
			for _, text := range test.Values {
				list = append(list, value{test.Attribute, text})
			}
		}
		return list
	}
	forget := func(id string) {
		for _, v := range clients[id] {
			delete(owners, v)
		}
		delete(clients, id)
	}
	kinds := []headgate.Attribute{userAttribute, apiKey, headerOf("x-a"), headerOf("x-b")}
	for round := range 60_000 {
		c := rules.Client{ID: fmt.Sprint("c", random.IntN(3000)), Limits: []rules.Limit{{Limit: headgate.PerHour(int64(round) + 1)}}}
		switch random.IntN(6) {
		case 0:
			_, had := clients[c.ID]
			if _, removed := r.Remove(c.ID); removed != had {
				t.Fatalf("round %d: removed %v, want %v", round, removed, had)
			}
			forget(c.ID)
			continue
		case 1:
			for _, a := range kinds {
				if random.IntN(2) == 0 {
					c.Attributes = append(c.Attributes, rules.Test{Attribute: a, Values: []string{fmt.Sprint("c", random.IntN(9000)), fmt.Sprint("k", random.IntN(9000))}})
				}
			}
		}
		free := true
		for _, v := range valuesOf(&c) {
			owner, taken := owners[v]
			free = free && (!taken || owner == c.ID)
		}
		if err := r.Put(c); (err == nil) != free {
			t.Fatalf("round %d: put %+v: got %v, want an error: %v", round, c, err, !free)
		}
		if !free {
			continue
		}
		forget(c.ID)
		clients[c.ID] = valuesOf(&c)
		for _, v := range clients[c.ID] {
			owners[v] = c.ID
		}
	}
	if r.Len() != len(clients) || r.values.count != len(owners) {
		t.Errorf("%d clients of %d values, want %d of %d", r.Len(), r.values.count, len(clients), len(owners))
	}
	for i := range 9000 {
		id := fmt.Sprint("c", i)
		if c, found := r.Get(id); found != (clients[id] != nil) || found && c.ID != id {
			t.Errorf("client %s: got %v, %v; want %v", id, c, found, clients[id] != nil)
		}
		for _, a := range kinds {
			for _, text := range []string{id, fmt.Sprint("k", i)} {
				got := ""
				if c := r.Find(a, text); !c.Absent() {
					got = c.ClientID(text)
				}
				if want := owners[value{a, text}]; got != want {
					t.Errorf("%s %s: got %q, want %q", a, text, got, want)
				}
			}
		}
	}
}

// Two values whose hashes differ only in the second half have an entry each, before and after the table is rebuilt.
func TestHalfEqualHashesAreKeptApart(t *testing.T) {
	t.Parallel()
	var table table
	one, two := Client{&Entry{}, 1}, Client{&Entry{}, 2}
	table.set(valueHash{7, 1}, one)
	table.set(valueHash{7, 2}, two)
	check := func(hash valueHash, want Client) {
		t.Helper()
		if got := table.find(hash); got != want {
			t.Errorf("%v: got %v, want %v", hash, got, want)
		}
	}
	check(valueHash{7, 3}, Client{})
	for i := range uint64(100) {
		table.set(valueHash{i << 57, i}, Client{&Entry{}, 3})
	}
	check(valueHash{7, 1}, one)
	check(valueHash{7, 2}, two)
	table.set(valueHash{7, 1}, Client{})
	check(valueHash{7, 1}, Client{})
	check(valueHash{7, 2}, two)
	table.set(valueHash{7, 2}, one)
	check(valueHash{7, 2}, one)
}

// Two notations of a value are one value, and it is free when its client is removed.
func TestTwoNotationsAreOneValue(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	address := headgate.Attribute{Kind: headgate.AttrIP}
	for _, values := range [][]string{{"192.0.2.1", "192.0.2.1/32"}, {"192.0.2.1/32"}, {"192.0.2.1/32", "192.0.2.2", "192.0.2.1"}, {"192.0.2.3"}} {
		if err := r.Put(rules.Client{ID: "acme", Attributes: []rules.Test{{Attribute: address, Values: values}}}); err != nil {
			t.Fatalf("%v: %v", values, err)
		}
	}
	if got := r.values.count; got != 1 {
		t.Errorf("acme is known by %d values, want 1", got)
	}
	for _, value := range []string{"192.0.2.1", "192.0.2.2"} {
		if c, found := r.Lookup(address, value); found {
			t.Errorf("%s is still that of %s", value, c.ID)
		}
	}
	r.Remove("acme")
	if err := r.Add(rules.Client{ID: "other", Attributes: []rules.Test{{Attribute: address, Values: []string{"192.0.2.1", "192.0.2.3"}}}}); err != nil {
		t.Errorf("values of a removed client: %v", err)
	}
}

// A hidden state is freed when nothing uses it any more, not when the next one is hidden.
func TestHiddenStateIsFreed(t *testing.T) {
	t.Parallel()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	var epoch CurrentEpoch
	end := r.Hide(&epoch)
	if err := r.Add(rules.Client{ID: "acme"}); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if r.lastHiding.Value() == nil {
		t.Error("the hidden state was freed while it was in use")
	}
	end(true)
	for range 10 {
		if runtime.GC(); r.lastHiding.Value() == nil {
			break
		}
	}
	if r.lastHiding.Value() != nil {
		t.Error("the hidden state was not freed")
	}
	runtime.KeepAlive(&epoch)
}
