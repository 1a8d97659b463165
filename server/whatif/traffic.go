package whatif

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/rules"
)

// An Event is a number of requests of a client.
type Event struct {
	At    int64 // µs since 1970
	Count uint32
	Cost  uint32 // units of each request
}

// A Client has the requests of one client under a rule.
type Client struct {
	// Key identifies the client. It is a hash, by which clients are sampled.
	Key uint64
	// Subject has the attributes of the client.
	Subject rules.Subject
	// Name is the client as it is shown.
	Name any
	// Certain clients are in the traffic regardless of the sample, because they send many requests.
	Certain bool
	// Spread is the time from an Event's At over which its requests are spread evenly: 0 if they come at once.
	Spread time.Duration
	// Events are in the order of time.
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

// Traffic has the requests of clients under a rule.
type Traffic struct {
	From, To time.Time
	// OneIn is the sampling of clients that are not Certain: one in 2^n. At least 1, which means all.
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

// Sampled reports whether a client is in a sample of one in 2^n.
func Sampled(key uint64, oneIn int64) bool { return key&uint64(oneIn-1) == 0 }

// Thin raises the sampling to one in 2^n.
func (t *Traffic) Thin(oneIn int64) {
	if oneIn <= t.OneIn {
		return
	}
	t.OneIn = oneIn
	t.Clients = slices.DeleteFunc(t.Clients, func(c *Client) bool { return !c.Certain && !Sampled(c.Key, oneIn) })
}

// Merge adds the traffic of another node. A client that sent requests to both has those of both.
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
		known.Certain = known.Certain || c.Certain
		known.Spread = max(known.Spread, c.Spread)
		known.Events = append(known.Events, c.Events...)
		slices.SortStableFunc(known.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	}
}
