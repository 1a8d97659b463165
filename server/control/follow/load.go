package follow

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
)

// Load returns the rules of a source with its registered clients and the overrides in force at a time, as a node has
// them. Enforcement that is turned off is not considered.
func Load(ctx context.Context, source Source, now time.Time) (*match.Set, error) {
	for {
		sink := &loadSink{}
		err := source.Fetch(ctx, control.Mark{}, sink)
		if errors.Is(err, errChangedWhileRead) && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sink.snapshot == nil {
			return match.Compile(nil) // a namespace without rules
		}
		state, err := sink.snapshot.finish(now)
		if err != nil {
			return nil, err
		}
		return state.set, nil
	}
}

// A loadSink passes what is fetched to a snapshotSink.
type loadSink struct{ snapshot *snapshotSink }

func (s *loadSink) Begin(h control.Header) (err error) {
	s.snapshot, err = newSnapshotSink(h, func(*rules.Client) {})
	return err
}

func (s *loadSink) Item(item *control.Item) error { return s.snapshot.item(item) }
