package exchange

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// warnings reports problems that other users of the exchange cause. It reports each kind of problem at most once in 10
// s. It is not safe for concurrent use.
type warnings struct {
	report                 func(fleet.Event)
	foreignAt, malformedAt time.Duration // when each was last reported; 0 if never
}

const warningInterval = 10 * time.Second

// foreign reports that another fleet uses the exchange.
func (w *warnings) foreign(now time.Duration, err error) {
	w.limited(&w.foreignAt, now, fleet.Event{Kind: fleet.ExchangeNameConflict, Err: err})
}

// malformed reports a malformed note.
func (w *warnings) malformed(now time.Duration, author string) {
	err := errNoAuthor
	if from, ok := ParseAuthor(author); ok {
		err = fmt.Errorf("its author is %q", from.Name)
	}
	w.limited(&w.malformedAt, now, fleet.Event{Kind: fleet.ExchangeMalformed, Err: err})
}

var errNoAuthor = errors.New("its author is not a node")

func (w *warnings) limited(last *time.Duration, now time.Duration, e fleet.Event) {
	if *last == 0 || now-*last >= warningInterval {
		*last = max(1, now)
		w.report(e)
	}
}

func logEvent(e fleet.Event) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	if e.Down != 0 {
		args = append(args, "duration", e.Down)
	}
	if e.Offset != 0 {
		args = append(args, "offset", e.Offset)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
