package guard

import (
	"log/slog"
	"time"
)

// An Event is something that happened to the store.
type Event struct {
	Kind EventKind
	// Shard is whose, empty if the store has but one.
	Shard string
	// At is when.
	At time.Time
	// Err is what the store answered last.
	Err error
	// Started tells, when a circuit opens, that the shard has not answered once since the guard was made.
	Started bool
	// Down is, when a circuit closes, for how long it was open, and Degraded how many decisions policies made meanwhile. When a
	// shard decides again it is for how long it refused to, and how many calls.
	Down     time.Duration
	Degraded int64
}

// An EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Failing    EventKind = iota // a call failed and a policy decided; at most one event a second and shard
	Opened                      // the circuit opened
	StillDown                   // the first probe after that failed
	Recovered                   // the circuit closed
	Vanished                    // the circuit was open and nobody has asked for the shard for a while; it is forgotten
	Refusing                    // the shard works and refuses to decide, as its memory is full or a key has something else in it
	Deciding                    // it has refused nothing for a while
	eventKinds                  // how many there are
)

var eventTexts = [eventKinds]string{
	Failing:   "store fails, a policy decides",
	Opened:    "store is down, policies decide",
	StillDown: "store is still down",
	Recovered: "store is back, decisions are exact again",
	Vanished:  "shard was down and is not asked for any more",
	Refusing:  "store refuses to decide, policies decide what it refuses",
	Deciding:  "store refuses nothing any more, decisions are exact again",
}

func (k EventKind) String() string {
	if k < eventKinds {
		return eventTexts[k]
	}
	return "unknown"
}

const eventRoom = 64

// tell queues an event. It never waits.
func (g *Guard) tell(e Event) {
	e.At = time.Now()
	select {
	case g.events <- e:
	default:
		g.counters.eventsDropped.Add(1)
	}
}

// tellAll passes events on until the guard is closed.
func (g *Guard) tellAll(to func(Event)) {
	for {
		select {
		case e := <-g.events:
			to(e)
		case <-g.stop:
			for { // what happened before the end is told
				select {
				case e := <-g.events:
					to(e)
				default:
					return
				}
			}
		}
	}
}

func logEvent(e Event) {
	args := []any{"shard", e.Shard}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	switch e.Kind {
	case Opened:
		args = append(args, "started", e.Started)
	case Recovered, Deciding:
		args = append(args, "down", e.Down, "degraded", e.Degraded)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
