package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/rules"
)

// An Event is a batch of requests from one client, all with the same cost.
type Event struct {
	At    int64 // µs since 1970
	Count uint32
	Cost  uint32 // units of each request
}

// A Client contains the requests that one client sent under a rule.
type Client struct {
	// Key is a hash that identifies the client. Its low bits decide whether a sample contains the client: see Sampled.
	Key uint64
	// Subject contains the attributes of the client.
	Subject rules.Subject
	// Name identifies the client in results. It is a value for JSON: a traffic.RawClient from samples, or a map of
	// attributes by name from a log.
	Name any
	// AlwaysSampled is true for a client with very many requests. Every sample contains it.
	AlwaysSampled bool
	// Spread is the length of an interval that begins at Event.At. The requests of the Event are spread evenly over it. 0
	// means that all of them are sent at Event.At.
	Spread time.Duration
	// Events are sorted by At.
	Events []Event
}

// Requests returns the number of requests.
func (c *Client) Requests() int64 {
	n := int64(0)
	for i := range c.Events {
		n += int64(c.Events[i].Count)
	}
	return n
}

// Traffic contains the requests of clients under a rule.
type Traffic struct {
	From, To time.Time
	// OneIn is a power of two. Of the clients that are not AlwaysSampled, Clients contains one in OneIn.
	OneIn   int64
	Clients []*Client
}

// Events returns the number of events of all clients.
func (t *Traffic) Events() int {
	n := 0
	for _, c := range t.Clients {
		n += len(c.Events)
	}
	return n
}

// Sampled reports whether a client is in a sample of one in oneIn, a power of two.
func Sampled(key uint64, oneIn int64) bool { return key&uint64(oneIn-1) == 0 }

// Thin reduces the sample to one client in oneIn, a power of two. A smaller sample stays as it is.
func (t *Traffic) Thin(oneIn int64) {
	if oneIn <= t.OneIn {
		return
	}
	t.OneIn = oneIn
	t.Clients = slices.DeleteFunc(t.Clients, func(c *Client) bool { return !c.AlwaysSampled && !Sampled(c.Key, oneIn) })
}

// Merge adds the traffic of another node. It combines the events of a client that is in both. It thins the larger
// sample until both have the same OneIn. Merge may change o and keep its clients, so the caller must not use o
// afterwards.
func (t *Traffic) Merge(o *Traffic) {
	if len(t.Clients) == 0 && t.OneIn <= 1 && t.From.IsZero() {
		*t = *o
		return
	}
	if o.From.Before(t.From) {
		t.From = o.From
	}
	if o.To.After(t.To) {
		t.To = o.To
	}
	oneIn := max(t.OneIn, o.OneIn)
	t.Thin(oneIn)
	o.Thin(oneIn)
	byKey := make(map[uint64]*Client, len(t.Clients))
	for _, c := range t.Clients {
		byKey[c.Key] = c
	}
	for _, c := range o.Clients {
		known := byKey[c.Key]
		if known == nil {
			t.Clients = append(t.Clients, c)
			continue
		}
		known.AlwaysSampled = known.AlwaysSampled || c.AlwaysSampled
		known.Spread = max(known.Spread, c.Spread)
		known.Events = append(known.Events, c.Events...)
		slices.SortStableFunc(known.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	}
}
