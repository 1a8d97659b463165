package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// letterOf is what a host says, and hears others say, in an order of the test's own.
type letterOf struct {
	from    *host
	uptime  time.Duration
	tallies []tally.Tally
}

func (h *host) write(key string, l headgate.Limit) letterOf {
	h.Helper()
	k, err := h.KeyOf(headgate.Check{Key: key, Limit: l})
	if err != nil {
		h.Fatal(err)
	}
	return letterOf{h, h.Uptime(), h.Tallies(nil, []tally.Key{k})}
}

func (h *host) read(letters ...letterOf) {
	for _, l := range letters {
		h.Apply(l.from.Peer, l.uptime, l.tallies)
	}
}

// A newcomer begins at the level of an old host. What a third host consumed that the old one knew, or did not, counts
// once, in whichever order the newcomer hears of them.
func TestANewcomerCountsOnceWhatAThirdHostConsumed(t *testing.T) {
	limit := headgate.Per(100, 300*24*time.Hour)
	for _, knew := range []bool{true, false} {
		for _, oldFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("known to the old %t, the old first %t", knew, oldFirst), func(t *testing.T) {
				clock, all := hosts(t, 3, true, nil)
				old, third, newcomer := all[0], all[1], all[2]
				old.take("k", limit, 10)
				clock.Advance(2 * fleet.DefaultLag)
				third.take("k", limit, 5)
				clock.Advance(fleet.DefaultLag / 10)
				if knew {
					old.read(third.write("k", limit))
				}
				newcomer.take("k", limit, 1)
				letters := []letterOf{old.write("k", limit), third.write("k", limit)}
				if !oldFirst {
					letters[0], letters[1] = letters[1], letters[0]
				}
				newcomer.read(letters...)
				wantRemaining(t, "when all was heard", "k", limit, 84, newcomer)
			})
		}
	}
}

// A node whose update is old does not know when the units of the other updates were consumed. They may have drained.
func TestANewcomerDoesNotCountDrainedUnitsThatAnOldUpdateLacks(t *testing.T) {
	limit := headgate.Per(10, time.Second)
	clock, all := hosts(t, 3, true, nil)
	old, third, newcomer := all[0], all[1], all[2]
	old.take("k", limit, 1)
	third.take("k", limit, 1)
	shareAll(old, third)
	letters := []letterOf{old.write("k", limit)}
	clock.Advance(200 * time.Millisecond)
	third.take("k", limit, 9)
	letters = append(letters, third.write("k", limit))
	clock.Advance(2 * time.Second)
	wantRemaining(t, "before the updates", "k", limit, 10, newcomer)
	for i := range letters {
		age := newcomer.Uptime() - letters[i].uptime
		letters[i].tallies[0].MinAge, letters[i].tallies[0].MaxAge = age, age
	}
	newcomer.read(letters[1], letters[0])
	wantRemaining(t, "when all was heard", "k", limit, 10, newcomer, third)
}

// After a reset totals say more than what counts: a newcomer does not charge what was forgiven.
func TestANewcomerDoesNotCountWhatWasForgivenByAReset(t *testing.T) {
	limit := headgate.Per(100, 300*24*time.Hour)
	for _, hears := range []bool{true, false} {
		t.Run(fmt.Sprintf("who reset it is heard of %t", hears), func(t *testing.T) {
			clock, all := hosts(t, 3, true, nil)
			old, resetter, newcomer := all[0], all[1], all[2]
			old.take("k", limit, 30)
			resetter.take("k", limit, 1)
			shareAll(old, resetter)
			if err := resetter.Reset(context.Background(), headgate.Check{Key: "k", Limit: limit}); err != nil {
				t.Fatal(err)
			}
			shareAll(old, resetter)
			old.take("k", limit, 2)
			clock.Advance(2 * fleet.DefaultLag)
			newcomer.take("k", limit, 1)
			newcomer.read(old.write("k", limit))
			if hears {
				newcomer.read(resetter.write("k", limit))
			}
			wantRemaining(t, "after the reset", "k", limit, 97, newcomer)
		})
	}
}

// What an old host knew of one that is gone, and whose notes are lost, goes on counting, and is not taken for what a
// host consumes that comes later.
func TestANewcomerCountsWhatAHostConsumedThatIsGone(t *testing.T) {
	limit := headgate.Per(100, 300*24*time.Hour)
	clock, all := hosts(t, 4, true, nil)
	old, gone, newcomer, later := all[0], all[1], all[2], all[3]
	old.take("k", limit, 10)
	gone.take("k", limit, 5)
	old.read(gone.write("k", limit))
	clock.Advance(2 * fleet.DefaultLag)
	newcomer.take("k", limit, 1)
	newcomer.read(old.write("k", limit))
	wantRemaining(t, "of one that is gone", "k", limit, 84, newcomer)
	clock.Advance(fleet.DefaultLag)
	later.take("k", limit, 5)
	newcomer.read(later.write("k", limit))
	wantRemaining(t, "of one that came later", "k", limit, 79, newcomer)
}

// A host that dies and starts again hears from the others what it consumed in its first life, though they consumed
// nothing, and though that was but a moment ago. What they, and others, consume meanwhile counts once.
func TestAHostThatStartsAgainAtOnceKnowsWhatItsFirstLifeConsumed(t *testing.T) {
	for _, text := range []string{"100/300d", "100/d fixed-window", "100/d fixed-window staggered"} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			t.Run(fmt.Sprint(text, order), func(t *testing.T) {
				limit := headgate.MustParseLimit(text)
				clock, all := hosts(t, 3, false, nil)
				clock.Advance(time.Hour)
				all[2].take("k", limit, 60)
				all[0].take("k", limit, 3)
				shareAll(all...)
				clock.Advance(fleet.DefaultLag / 10)
				again := newHost(t, clock, fleet.Peer{Name: all[2].Peer.Name, Incarnation: 2}, false, nil)
				clock.Advance(fleet.DefaultLag / 10)
				all[0].take("k", limit, 2) // nobody else knows
				again.take("k", limit, 1)
				letters := []letterOf{all[0].write("k", limit), all[1].write("k", limit)}
				again.read(letters[order[0]], letters[order[1]])
				wantRemaining(t, "when the others were heard", "k", limit, 34, again)
				all[0].read(again.write("k", limit))
				all[1].read(again.write("k", limit), all[0].write("k", limit))
				again.read(all[0].write("k", limit), all[1].write("k", limit))
				wantRemaining(t, "when all was heard", "k", limit, 34, all[0], all[1], again)
				again.take("k", limit, 34)
				if got := again.take("k", limit, 1); got != 0 {
					t.Errorf("more passed than was left")
				}
				clock.Advance(25 * time.Hour)
				if limit.Algorithm == headgate.FixedWindow {
					wantRemaining(t, "in the next window", "k", limit, 100, all[0], again)
					all[0].take("k", limit, 7)
					again.read(all[0].write("k", limit))
					wantRemaining(t, "in the next window", "k", limit, 93, again)
				}
			})
		}
	}
}

// Nodes that ask learn of units late: those that drained before the record was added once counted in full.
func TestANewRecordDoesNotCountDrainedUnits(t *testing.T) {
	limit := headgate.PerSecond(100)
	clock, all := hosts(t, 2, true, nil)
	old, newcomer := all[0], all[1]
	old.take("k", limit, 3)
	clock.Advance(60 * time.Millisecond)
	newcomer.take("k", limit, 1)
	newcomer.read(old.write("k", limit))
	wantRemaining(t, "3 units have drained", "k", limit, 99, newcomer)
}

// The time before the record was added counts once, not for each peer.
func TestANewRecordDrainsUnitsOfPeersThatHaveNotMetOnce(t *testing.T) {
	limit := headgate.PerSecond(100)
	clock, all := hosts(t, 3, true, nil)
	first, second, newcomer := all[0], all[1], all[2]
	first.take("k", limit, 40)
	second.take("k", limit, 40)
	clock.Advance(100 * time.Millisecond)
	newcomer.take("k", limit, 1)
	newcomer.read(first.write("k", limit), second.write("k", limit))
	wantRemaining(t, "10 of 80 units have drained", "k", limit, 29, newcomer)
}
