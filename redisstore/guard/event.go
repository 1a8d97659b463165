package guard

import (
	"log/slog"
	"time"
)

// An Event is a change in the state of the store.
type Event struct {
	Kind EventKind
	// Shard is the name of the shard, or empty if the store is not Sharded.
	Shard string
	// At is when it happened.
	At time.Time
	// Err is the last error of the shard.
	Err error
	// NeverResponded reports, for Opened, that the shard has not responded since the guard was created.
	NeverResponded bool
	// For Recovered, Down is how long the circuit was open, and Degraded how many decisions policies made meanwhile. For
	// Deciding, Down is how long the shard refused to decide, and Degraded how many calls it refused.
	Down     time.Duration
	Degraded int64
	// Reason says, for Overloaded, what the request waited for: "queue" to be admitted, "key" for the response to another
	// caller of its key, or "call" for its own, which this process did not send or read in time.
	Reason string
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Failing    EventKind = iota // a call failed and a policy decided; at most one event per second and shard
	Opened                      // the circuit opened
	StillDown                   // the first probe after that failed
	Recovered                   // the circuit closed
	Vanished                    // the circuit was open and the shard was not used for a while; it is forgotten
	Refusing                    // the shard works and refuses to decide: its memory is full, or a key has a foreign value
	Deciding                    // the shard has refused nothing for a while
	Overloaded                  // requests are refused because of overload; at most one event per second and shard
	eventKinds                  // the number of kinds
)

var eventTexts = [eventKinds]string{
	Failing:    "store fails, a policy decides",
	Opened:     "store is down, policies decide",
	StillDown:  "store is still down",
	Recovered:  "store is back, decisions are exact again",
	Vanished:   "shard was down and is no longer used",
	Refusing:   "store refuses to decide some checks, policies decide them",
	Deciding:   "store decides all checks again, decisions are exact again",
	Overloaded: "overloaded, requests are refused",
}

func (k EventKind) String() string {
	if k < eventKinds {
		return eventTexts[k]
	}
	return "unknown"
}

// maxEvents is how many events wait for OnEvent.
const maxEvents = 64

// send queues an event, or drops it if the queue is full.
func (g *Guard) send(e Event) {
	e.At = g.clock.Now()
	if !g.events.Add(e) {
		g.counters.eventsDropped.Add(1)
	}
}

func logEvent(e Event) {
	args := []any{"shard", e.Shard}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	switch e.Kind {
	case Opened:
		args = append(args, "never_responded", e.NeverResponded)
	case Overloaded:
		args = append(args, "reason", e.Reason)
	case Recovered, Deciding:
		args = append(args, "down", e.Down, "degraded", e.Degraded)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
