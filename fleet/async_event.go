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
}

// An AsyncEventKind says what happened.
type AsyncEventKind uint8

// The kinds of events.
const (
	ExchangeAway    AsyncEventKind = iota // it has not answered for some intervals; policies apply
	ExchangeBack                          // it answers again
	ExchangeForeign                       // another fleet uses it under the same name; told once in ten seconds
	asyncEventKinds
)

var asyncEventTexts = [asyncEventKinds]string{
	ExchangeAway:    "what nodes consume cannot be exchanged: each decides by itself",
	ExchangeBack:    "what nodes consume is exchanged again",
	ExchangeForeign: "a fleet with another secret exchanges under the same name: nothing is shared with it",
}

func (k AsyncEventKind) String() string {
	if k < asyncEventKinds {
		return asyncEventTexts[k]
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
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
