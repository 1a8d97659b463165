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
	// At is the time of the event.
	At time.Time
	// Err is the last error of the shard.
	Err error
	// NeverResponded reports, for Opened, that the shard has not responded since the guard was created.
	NeverResponded bool
	// For Recovered, Down is how long the circuit was open, and Degraded is how many decisions policies made in this time.
	// For Deciding, Down is how long the shard refused to decide, and Degraded is how many calls it refused.
	Down     time.Duration
	Degraded int64
	// Reason is set for Overloaded. It says what the request waited for. "queue": to be admitted. "key": for the response
	// to another caller of its key. "call": for its own response, because this process did not send the call or read the
	// response in time.
	Reason string
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Failing    EventKind = iota // a call failed and a policy decided; at most one event per second and shard
	Opened                      // the circuit opened
	StillDown                   // the first probe after Opened failed
	Recovered                   // the circuit closed
	Forgotten                   // a shard with an open circuit was not used for a while, and is forgotten
	Refusing                    // the shard works, but refuses some checks, because its memory is full for example
	Deciding                    // the shard decides all checks again
	Overloaded                  // requests are refused because of overload; at most one event per second and shard
	eventKinds                  // the number of kinds
)

var eventTexts = [eventKinds]string{
	Failing:    "store fails, a policy decides",
	Opened:     "store is down, policies decide",
	StillDown:  "store is still down",
	Recovered:  "store is back, decisions are exact again",
	Forgotten:  "shard was down and is no longer used",
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

// maxEvents is the maximum number of events that wait for OnEvent.
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
		args = append(args, "duration", e.Down, "degraded", e.Degraded)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
