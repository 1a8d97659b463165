package fleet

import "time"

// An Event is a change in the state of an exchange or a clock.
type Event struct {
	Kind EventKind
	// Err is the latest error of the exchange.
	Err error
	// Down is the time for which the exchange was unreachable. It is set when the exchange is reachable again.
	Down time.Duration
	// Off is the time by which a clock is ahead of the fleet's clock.
	Off time.Duration
}

// An EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	ExchangeUnreachable     EventKind = iota // no exchange succeeded for several intervals; policies apply
	ExchangeReachable                        // exchanges succeed again
	ExchangeForeign                          // another fleet uses the exchange under the same name; at most once in 10 s
	ExchangeMalformed                        // a note in the exchange is malformed; at most once in 10 s
	ExchangePartUnreachable                  // some keys were not exchanged for several intervals; policies apply to them
	ExchangePartReachable                    // all keys are exchanged again
	ClockOff                                 // this node's clock differs from the fleet's; windows use the fleet's
	ClockRight                               // this node's clock agrees with the fleet's again
	StoreClockOff                            // the clock of a region's store, which windows use, differs from the fleet's
	StoreClockRight                          // the clock of the region's store agrees with the fleet's again
	eventKinds
)

var eventTexts = [eventKinds]string{
	ExchangeUnreachable: "exchange unreachable, each node decides by its own counters",
	ExchangeReachable:   "exchange reachable again",
	ExchangeForeign:     "a fleet with another secret uses the same name, ignoring it",
	ExchangeMalformed:   "ignoring a malformed note in the exchange; do all nodes run the same version?",

	ExchangePartUnreachable: "part of the exchange unreachable, each node decides by its own counters for the keys in it",
	ExchangePartReachable:   "all parts of the exchange reachable again",
	ClockOff:                "this node's clock differs from the fleet's, windows use the fleet's clock",
	ClockRight:              "this node's clock agrees with the fleet's again",
	StoreClockOff:           "the clock of this region's store differs from the fleet's, windows use the store's clock",
	StoreClockRight:         "the clock of this region's store agrees with the fleet's again",
}

// String returns the text that is logged for the event.
func (k EventKind) String() string {
	if int(k) < len(eventTexts) {
		return eventTexts[k]
	}
	return "unknown"
}
