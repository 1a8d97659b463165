package fleet

import "time"

// An Event is a change in the state of an exchange or a clock.
type Event struct {
	Kind EventKind
	// Err is the latest error of the exchange. It is nil for clocks.
	Err error
	// Down is the time for which the exchange was unreachable. It is set when the exchange is reachable again.
	Down time.Duration
	// Offset is the time by which a clock is ahead of the fleet's clock. It is negative if the clock is behind.
	Offset time.Duration
}

// An EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	// ExchangeUnreachable means that nothing was exchanged for several intervals. The failure policies of the rules
	// apply until ExchangeReachable.
	ExchangeUnreachable EventKind = iota
	ExchangeReachable
	// ExchangeNameConflict means that another fleet uses the exchange under the same name. The event is reported at
	// most once every 10 s.
	ExchangeNameConflict
	// ExchangeMalformed means that the exchange contains a malformed note, which is the update of a node for a key. The
	// event is reported at most once every 10 s.
	ExchangeMalformed
	// ExchangePartlyUnreachable means that some keys were not exchanged for several intervals. The failure policies of
	// the rules apply to these keys until ExchangeFullyReachable.
	ExchangePartlyUnreachable
	ExchangeFullyReachable
	// ClockOutOfSync means that this node's clock differs from the fleet's clock. Windows use the fleet's clock.
	ClockOutOfSync
	ClockInSync
	// StoreClockOutOfSync means that the clock of this region's store differs from the fleet's clock. Windows use the
	// clock of the store.
	StoreClockOutOfSync
	StoreClockInSync
	eventKinds
)

var eventTexts = [eventKinds]string{
	ExchangeUnreachable:  "exchange unreachable; each node decides from its own counters",
	ExchangeReachable:    "exchange reachable again",
	ExchangeNameConflict: "ignoring a fleet with another secret that uses the same name",
	ExchangeMalformed:    "ignoring a malformed note in the exchange; do all nodes run the same version?",

	ExchangePartlyUnreachable: "part of the exchange unreachable; each node decides from its own counters for the keys in it",
	ExchangeFullyReachable:    "all parts of the exchange reachable again",
	ClockOutOfSync:            "this node's clock differs from the fleet's; windows use the fleet's clock",
	ClockInSync:               "this node's clock agrees with the fleet's again",
	StoreClockOutOfSync:       "the clock of this region's store differs from the fleet's; windows use the store's clock",
	StoreClockInSync:          "the clock of this region's store agrees with the fleet's again",
}

// String returns the text that is logged for the event.
func (k EventKind) String() string {
	if int(k) < len(eventTexts) {
		return eventTexts[k]
	}
	return "unknown"
}
