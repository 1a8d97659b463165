package exchange

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

// Warnings reports problems that other users of the exchange cause. It reports each kind of problem at most once in 10
// s. It is not safe for concurrent use.
type Warnings struct {
	Report                 func(fleet.Event)
	foreignAt, malformedAt time.Duration // when each was last reported; 0 if never
}

const warningInterval = 10 * time.Second

// Foreign reports that another fleet uses the exchange.
func (s *Warnings) Foreign(now time.Duration, err error) {
	s.limited(&s.foreignAt, now, fleet.Event{Kind: fleet.ExchangeNameConflict, Err: err})
}

// Malformed reports a malformed note.
func (s *Warnings) Malformed(now time.Duration, author string) {
	err := errNoAuthor
	if from, ok := ParseAuthor(author); ok {
		err = fmt.Errorf("its author is %q", from.Name)
	}
	s.limited(&s.malformedAt, now, fleet.Event{Kind: fleet.ExchangeMalformed, Err: err})
}

var errNoAuthor = errors.New("its author is not a node")

func (s *Warnings) limited(last *time.Duration, now time.Duration, e fleet.Event) {
	if *last == 0 || now-*last >= warningInterval {
		*last = max(1, now)
		s.Report(e)
	}
}

func logEvent(e fleet.Event) {
	args := []any{}
	if e.Err != nil {
		args = append(args, "err", e.Err)
	}
	if e.Down != 0 {
		args = append(args, "down", e.Down)
	}
	if e.Offset != 0 {
		args = append(args, "off", e.Offset)
	}
	slog.Warn("headgate: "+e.Kind.String(), args...)
}
