package fleet

import (
	"log/slog"
	"time"
)

// An AsyncEvent is something that happened to an exchange.
type AsyncEvent struct {
	Kind AsyncEventKind
	// Err is what the exchange answered last.
	Err error
	// Down is, when it is back, for how long it was away.
	Down time.Duration
	// Off is by how much a date is later than that of the fleet.
	Off time.Duration
}

// An AsyncEventKind says what happened.
type AsyncEventKind uint8

// The kinds of events.
const (
	ExchangeAway     AsyncEventKind = iota // it has not answered for some intervals; policies apply
	ExchangeBack                           // it answers again
	ExchangeForeign                        // another fleet uses it under the same name; told once in ten seconds
	ExchangePartAway                       // for some of the keys it has not answered for some intervals; policies apply to them
	ExchangePartBack                       // it answers for all keys again
	DateOff                                // this host's date is not that of the fleet, by which windows are counted
	DateRight                              // it is again
	StoreDateOff                           // the date of a region's store, by which it counts windows, is not that of the fleet
	StoreDateRight                         // it is again
	asyncEventKinds
)

var asyncEventTexts = [asyncEventKinds]string{
	ExchangeAway:    "what nodes consume cannot be exchanged: each decides by itself",
	ExchangeBack:    "what nodes consume is exchanged again",
	ExchangeForeign: "a fleet with another secret exchanges under the same name: nothing is shared with it",

	ExchangePartAway: "what nodes consume of some keys cannot be exchanged: each decides by itself",
	ExchangePartBack: "what nodes consume of all keys is exchanged again",
	DateOff:          "this host's date is not the fleet's: windows go by the fleet's",
	DateRight:        "this host's date is the fleet's again",
	StoreDateOff:     "the date of this region's store is not the fleet's: its windows begin at other times than those of other regions",
	StoreDateRight:   "the date of this region's store is the fleet's again",
}

func (k AsyncEventKind) String() string {
	return textOf(int(k), asyncEventTexts[:])
}

// textOf returns what stands for a kind of event.
func textOf(kind int, texts []string) string {
	if kind < len(texts) {
		return texts[kind]
	}
	return "unknown"
}

const foreignEvery = 10 * time.Second

// tell passes an event on. Rounds call it, one at a time.
func (a *Async) tell(e AsyncEvent) {
	if e.Kind == ExchangeForeign {
		now := a.clock.Now()
		if a.toldForeign != 0 && now-a.toldForeign < foreignEvery {
			return
		}
		a.toldForeign = max(1, now)
	}
	a.options.OnEvent(e)
}

func logAsync(e AsyncEvent) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	if e.Down != 0 {
		args = append(args, "down", e.Down)
	}
	if e.Off != 0 {
		args = append(args, "off", e.Off)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
