package region

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A remoteTally is another region's tally of one key.
type remoteTally struct {
	key    int // index of the key in the batch
	region string
	uptime time.Duration
	tally  tally.Tally
}

// settleRemote asks the RegionStore how much the totals of other regions have grown, and adds these units to the owed
// units.
func (l *Limiter) settleRemote(ctx context.Context, responses []response, received []remoteTally) error {
	if len(received) == 0 {
		return nil
	}
	b := &l.batch
	received = slices.DeleteFunc(received, func(r remoteTally) bool {
		reason := r.tally.WhyImplausible(r.uptime)
		if reason != "" {
			l.refuse(&r, reason)
		}
		return reason != ""
	})
	totals := make([]fleet.RemoteTotal, len(received))
	for i := range received {
		r := &received[i]
		totals[i] = fleet.RemoteTotal{
			Key: b.Notes[r.key].Key, Region: r.region, Start: r.tally.Start.Microseconds(), Window: r.tally.Window,
			Total: r.tally.Total, SentAt: r.uptime.Microseconds(), Keep: b.Notes[r.key].Keep,
		}
		totals[i].MaxTotal, totals[i].MaxGrowth = l.clampTally(r)
		totals[i].Before, totals[i].Previous = windowBefore(&r.tally, &b.Tallies[r.key].Limit), r.tally.Previous
	}
	ctx, done := clock.WithTimeout(ctx, l.clock, l.link.Settings.Deadline)
	defer done()
	missed, err := l.regionStore.Settle(ctx, totals, func(i int, growth fleet.Growth) {
		switch r := &received[i]; {
		case growth.TooLarge:
			l.refuse(r, tally.ReasonGrewTooMuch)
		case growth.Fell:
			l.refuse(r, tally.ReasonDecreased)
		}
		l.chargeRemote(&received[i], &responses[received[i].key], growth)
	})
	for _, i := range missed {
		responses[received[i].key].failed = true
	}
	if err != nil {
		l.link.Counters.Failures.Add(1)
	}
	return err
}

// age returns how long the other region has counted the key.
func (r *remoteTally) age() time.Duration { return max(0, r.uptime-r.tally.Start) + r.tally.MaxAge }

// refuse reports an implausible tally of a region.
func (l *Limiter) refuse(r *remoteTally, reason string) {
	l.ledger.Refuse(fleet.Peer{Name: r.region}, reason)
}

// clampTally reduces a tally to plausible numbers: its level to the largest possible level, its total to that level
// plus the units that can have drained, and its units of the previous window to the capacity. It returns the largest
// possible total, and the largest possible growth of a known total.
func (l *Limiter) clampTally(r *remoteTally) (maxTotal, maxGrowth int64) {
	t := &r.tally
	p, _ := l.ledger.LevelOf(t.Key)
	if p == nil {
		return headgate.MaxCount, headgate.MaxCount
	}
	maxLevel := (1 + headgate.MaxDebt) * p.Capacity()
	maxTotal = maxLevel + p.UnitsIn(2*r.age().Microseconds())
	t.Total, t.Level, t.Previous = min(t.Total, maxTotal), min(t.Level, maxLevel), min(t.Previous, p.Capacity())
	return maxTotal, headgate.MaxDebt*p.Capacity() + p.UnitsIn(2*min(r.age(), l.link.Settings.Interval*100).Microseconds())
}

// chargeRemote adds the growth of a tally to the owed units.
func (l *Limiter) chargeRemote(r *remoteTally, own *response, growth fleet.Growth) {
	units := growth.Units
	t := &r.tally
	l.ledger.CountLag(t.MaxAge)
	p, level := l.ledger.LevelOf(t.Key)
	if p != nil && p.HasWindows() {
		l.oweWindow(p, t.Key, t.Window, units)
		l.oweWindow(p, t.Key, t.Window-p.Period, growth.Previous)
		return
	}
	if p == nil || units <= 0 {
		return
	}
	k := l.keys[t.Key]
	age := r.age()
	l.ledger.CountApplied(units)
	// undrained is the number of units of the tally that have not drained. The tally's level may be too low, because the
	// sender may not know the consumption of other nodes of its region. The time since the start of the total gives
	// another lower bound.
	undrained := max(t.Level, t.Total-p.DrainedOf(t.Total, (r.uptime-t.Start).Microseconds()))
	undrained -= p.DrainedOf(undrained, t.MaxAge.Microseconds())
	switch ours := time.Duration(own.Now-own.Start) * time.Microsecond; {
	case growth.First && age > ours+l.ledger.Options().Lag: // this region is the newcomer, and adopts the other's level
		unknown := int64(0) // units of this region that the other region does not know
		switch {
		case k.firstNoteRound != l.roundNumber && t.MaxAge < ours: // the level may include this region's units
		case ours < l.link.Settings.Interval: // other nodes of this region may not have reported yet
			unknown = max(0, level-k.charged)
		default:
			unknown = min(own.Total, level)
		}
		k.owed += max(0, undrained+unknown-level-k.owed)
	default:
		used := min(max(0, k.unused), max(0, units-undrained))
		k.unused -= used
		k.owed += units - used
	}
}
