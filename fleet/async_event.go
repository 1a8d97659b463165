package fleet

import (
	"errors"
	"fmt"
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
	ExchangeGarbled                        // somebody leaves notes there that make no sense; told once in ten seconds
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
	ExchangeGarbled: "a note of what was consumed makes no sense and is not heeded: is everybody of the same version?",

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

// A strangers tells of what others cause, each kind once in ten seconds. Rounds call it, one at a time.
type strangers struct {
	tell            func(AsyncEvent)
	foreign, garble time.Duration // by the clock: when that was last told; 0 if never
}

const strangersEvery = 10 * time.Second

// areForeign tells that another fleet uses the exchange.
func (s *strangers) areForeign(now time.Duration, err error) {
	s.seldom(&s.foreign, now, AsyncEvent{Kind: ExchangeForeign, Err: err})
}

// garbled tells that an author's note makes no sense.
func (s *strangers) garbled(now time.Duration, author string) {
	err := errNoAuthor
	if from, ok := peerOf(author); ok {
		err = fmt.Errorf("it is of %q", from.Name)
	}
	s.seldom(&s.garble, now, AsyncEvent{Kind: ExchangeGarbled, Err: err})
}

var errNoAuthor = errors.New("it is of nobody who could be a node")

func (s *strangers) seldom(last *time.Duration, now time.Duration, e AsyncEvent) {
	if *last == 0 || now-*last >= strangersEvery {
		*last = max(1, now)
		s.tell(e)
	}
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
