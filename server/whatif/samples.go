package whatif

import (
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// FromSamples returns the traffic in the samples of all nodes.
func FromSamples(samples []*traffic.Sample) *Traffic {
	t := &Traffic{OneIn: 1}
	for _, s := range samples {
		t.Merge(fromSample(s))
	}
	return t
}

func fromSample(s *traffic.Sample) *Traffic {
	t := &Traffic{From: s.From, To: s.To, OneIn: max(s.OneIn, 1), Clients: make([]*Client, 0, len(s.Clients))}
	for i := range s.Clients {
		from := &s.Clients[i]
		c := &Client{Key: from.Key, AlwaysSampled: from.Held, Name: from.Client, Subject: subjectOf(from.Client)}
		if from.Seconds {
			c.Spread = time.Second
		}
		from.Each(s.From, func(at time.Time, count, cost uint32) {
			c.Events = append(c.Events, Event{At: at.UnixMicro(), Count: count, Cost: cost})
		})
		t.Clients = append(t.Clients, c)
	}
	return t
}

// subjectOf returns the attributes of a client. Conditions never match hidden values.
func subjectOf(c traffic.RawClient) rules.Subject {
	subject := rules.Attributes{}
	for name, value := range c.Attributes() {
		if a, err := headgate.ParseAttribute(name); err == nil {
			subject[a] = value
		}
	}
	return subject
}

// SetCost sets the cost of all requests to the cost of a rule. It does nothing if the rule reads the cost from a
// header.
func (t *Traffic) SetCost(c *rules.Cost) {
	if c.Header != "" {
		return
	}
	cost := uint32(min(c.Initial(rules.Attributes{}), math.MaxUint32))
	for _, client := range t.Clients {
		for i := range client.Events {
			client.Events[i].Cost = cost
		}
	}
}
