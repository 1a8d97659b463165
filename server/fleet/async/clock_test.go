package async

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// Three hosts, of which one is 7 s ahead and one 7 s behind, let pass in every window what one would, and what slips
// through before they know of each other: less than two units arrive in that time.
// A wrongClock is ahead of the system's clock.
type wrongClock struct {
	clock.Clock
	ahead time.Duration
}

func (c wrongClock) Now() time.Time                  { return c.Clock.Now().Add(c.ahead) }
func (c wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func TestAsyncHostsWithWrongDatesCountInTheSameWindows(t *testing.T) {
	run := func(t *testing.T, dated bool) (passed fleettest.WindowCounts, events []fleet.Event) {
		passed = fleettest.WindowCounts{}
		synctest.Test(t, func(t *testing.T) {
			s := fleettest.NewBoard(time.Millisecond)
			var all []*Limiter
			for i, ahead := range fleettest.WrongClocks {
				o := Options{
					Name: fmt.Sprint("node ", i), Rand: rand.New(rand.NewPCG(7, uint64(i))).Int64N,
					OnEvent: func(e fleet.Event) { events = append(events, e) },
				}
				var x fleet.Exchange = s.Node(o.Author())
				if !dated {
					x = fleettest.WithoutClock{To: x}
				}
				a, err := New(fleet.LedgerOptions{Secret: fleettest.Secret, Clock: wrongClock{clock.System, ahead}}, x, o)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.SyncClock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, want := a.Stats().ClockAhead, -ahead; dated && (got-want).Abs() > time.Millisecond {
					t.Errorf("%s: the date is ahead by %v, want %v within the delay", o.Name, got, want)
				}
				all = append(all, a)
			}
			defer closeAsync(t, all...)
			for start := time.Now(); time.Since(start) < 70*time.Second; time.Sleep(200 * time.Millisecond) {
				for _, a := range all {
					passed.Add(time.Now(), takeAsync(t, a, "k", fleettest.TenIn10s, 1))
				}
			}
		})
		return passed, events
	}
	passed, events := run(t, true)
	passed.Check(t, 7, 13) // three more in one window are three less in the next
	var offs []time.Duration
	for _, e := range events {
		if e.Kind == fleet.ClockOutOfSync {
			offs = append(offs, e.Offset.Round(100*time.Millisecond))
		}
	}
	if want := []time.Duration{7 * time.Second, -7 * time.Second}; !slices.Equal(offs, want) {
		t.Errorf("hosts that are off: got %v, want %v", offs, want)
	}
	if passed, _ := run(t, false); passed.Most() <= 13 {
		t.Errorf("without a common date no more than %d passed in a window: this proves nothing", passed.Most())
	}
}

func TestAsyncFollowsAnExchangeWhoseDateMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []fleet.EventKind
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 1, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.OnEvent = func(e fleet.Event) { kinds = append(kinds, e.Kind) }
		})
		for _, ahead := range []time.Duration{0, time.Minute, 0} {
			s.Mu.Lock()
			s.Ahead = ahead
			s.Mu.Unlock()
			time.Sleep(2 * skew.ReadInterval)
			if got := all[0].Stats().ClockAhead; (got - ahead).Abs() > time.Millisecond {
				t.Errorf("the date is ahead by %v, want %v", got, ahead)
			}
		}
		closeAsync(t, all...)
		if want := []fleet.EventKind{fleet.ClockOutOfSync, fleet.ClockInSync}; !slices.Equal(kinds, want) {
			t.Errorf("events: got %v, want %v", kinds, want)
		}
	})
}
