package region

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/skew"
)

// A keyState is what a node knows of a key that it sends for the region.
type keyState struct {
	sentAt    time.Duration // when it was last sent, by the clock
	sentTotal int64         // the total that was sent last; -1 for none
	sentStart int64         // of sentTotal

	// level, levelAt and regionTotal are the level, the time and the region's total when the key was last sent. unused is
	// the number of units that did not drain in this region because its bucket was empty. So many units of other regions
	// are not charged, as all regions together stayed within the limit.
	level, levelAt, regionTotal int64
	unused                      int64

	firstTurn int   // the turn of the first note; -1 if other nodes may have left notes before; 0 if there is none
	owed      int64 // units of other regions to be charged
	charged   int64 // units of other regions
	deepest   int64 // debt since there was none
}

// A report is the response of the RegionStore for one key.
type report struct {
	fleet.RegionRecord
	failed bool // the RegionStore or the exchange did not respond for the key
}

// round makes one exchange, early if only of keys that decisions wait for. It reports whether there may be more to
// send.
func (g *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	b := &g.batch
	b.Fill(g.ledger, g.link.Settings.MaxKeys, early)
	g.turn++
	var reports []report
	if len(b.Tallies) > 0 {
		reports, err = g.exchangeAll(ctx)
	}
	charging, done := clock.WithTimeout(ctx, g.clock, g.link.Settings.Deadline)
	defer done()
	if early {
		g.chargeAll(charging, g.batchKeys)
	} else {
		g.chargeAll(charging, maps.All(g.keys))
		g.sweep()
	}
	g.noteLearned(ctx, reports)
	return len(b.Tallies) == g.link.Settings.MaxKeys, err
}

func (g *Limiter) exchangeAll(ctx context.Context) ([]report, error) {
	reports, missed, err := g.sendReport(ctx, g.batch.Tallies, asRecorded)
	for _, i := range missed {
		reports[i].failed = true
	}
	g.resendMissed(missed, err) // an error here is the region's own Redis, not another region
	sending := g.keysToSend(reports)
	g.charges.sentKeys.Store(int64(len(sending)))
	if len(sending) == 0 {
		return reports, err
	}
	received, failed := g.exchangeTotals(ctx, reports, sending)
	return reports, errors.Join(err, failed, g.settleRemote(ctx, reports, received))
}

// learnedKeys says for which keys a report states that this node knows the consumption in other regions.
type learnedKeys bool

const (
	asRecorded learnedKeys = false // for those whose tally is not Unlearned
	allLearned learnedKeys = true
)

// sendReport adds this node's consumption to the region's, and tells its other nodes for which keys it knows the
// consumption in other regions.
func (g *Limiter) sendReport(
	ctx context.Context, tallies []ledger.Tally, learned learnedKeys,
) (reports []report, missed []int, err error) {
	records := make([]fleet.NodeRecord, len(tallies))
	for i := range tallies {
		t := &tallies[i]
		records[i] = fleet.NodeRecord{
			Key: string(t.Key[:]), Start: t.Start.Microseconds(), Window: t.Window, Total: t.Total, Reported: t.Delivered,
			Learned: learned == allLearned || !t.Unlearned, Keep: exchange.KeepFor(t),
		}
	}
	reports = make([]report, len(tallies))
	ctx, done := clock.WithTimeout(ctx, g.clock, g.link.Settings.Deadline)
	defer done()
	requestedAt := g.clock.Elapsed()
	missed, err = g.regionStore.Report(ctx, g.nodeName, g.link.Settings.Interval, records,
		func(i int, r fleet.RegionRecord) { reports[i].RegionRecord = r })
	g.compareClocks(reports, requestedAt)
	return reports, missed, err
}

// compareClocks compares the clock of the region's store, which its windows use, with the fleet's.
func (g *Limiter) compareClocks(reports []report, requestedAt time.Duration) {
	i := slices.IndexFunc(reports, func(r report) bool { return r.Now != 0 })
	if i < 0 || !g.link.ClockSkew.Known() {
		return
	}
	reading := time.UnixMicro(reports[i].Now).Sub(g.clock.Start)
	off := g.storeClock.Update(reading, requestedAt, g.clock.Elapsed()) - g.link.ClockSkew.Ahead()
	g.storeClockOff.Store(int64(off))
	if isOff := skew.IsOff(off, g.storeClockReported); isOff != g.storeClockReported {
		g.storeClockReported = isOff
		kind := fleet.StoreClockRight
		if isOff {
			kind = fleet.StoreClockOff
		}
		g.link.Settings.OnEvent(fleet.Event{Kind: kind, Off: off})
	}
}

// resendMissed marks tallies that the RegionStore did not receive as not sent.
func (g *Limiter) resendMissed(missed []int, err error) {
	if err != nil {
		g.link.Counters.Failures.Add(1)
		g.ledger.Resend(g.batch.Pick(missed))
	}
}

// keysToSend returns the keys that this node sends for the region, and measures their levels.
func (g *Limiter) keysToSend(reports []report) []int {
	var list []int
	for i := range reports {
		if !reports[i].IsSender {
			continue
		}
		list = append(list, i)
		key := g.batch.Tallies[i].Key
		k := g.keys[key]
		if k == nil {
			k = &keyState{sentTotal: -1}
			if reports[i].Now-reports[i].Start > g.link.Settings.Interval.Microseconds() {
				k.firstTurn = -1
			}
			g.keys[key] = k
		}
		k.sentAt = g.clock.Elapsed()
		g.measureLevel(k, &g.batch.Tallies[i], &reports[i])
	}
	return list
}

// measureLevel compares the level with what it would be if nothing had drained unused. Nodes report a little later than
// they consume, so a comparison can be wrong either way; the next one corrects it.
func (g *Limiter) measureLevel(k *keyState, t *ledger.Tally, r *report) {
	p, level := g.ledger.LevelOf(t.Key)
	if p == nil || !p.IsBucket() {
		return
	}
	if k.levelAt != 0 && r.Now > k.levelAt {
		expected := k.level + r.Total - k.regionTotal - p.UnitsIn(r.Now-k.levelAt, headgate.MaxCount)
		most := p.UnitsIn(2*g.link.Settings.Interval.Microseconds(), headgate.MaxCount)
		k.unused = min(max(k.unused+level-expected, -p.Capacity()), most)
	}
	k.level, k.levelAt, k.regionTotal = level, r.Now, r.Total
}

// exchangeTotals leaves notes for other regions and returns theirs.
func (g *Limiter) exchangeTotals(ctx context.Context, reports []report, sending []int) ([]remoteTally, error) {
	b := &g.batch
	notes := make([]fleet.Note, len(sending))
	for n, i := range sending {
		notes[n] = b.Notes[i]
		notes[n].Text = ""
		r, k := &reports[i], g.keys[b.Tallies[i].Key]
		if k.sentTotal == r.Total && k.sentStart == r.Start {
			continue // other regions know it
		}
		k.sentTotal, k.sentStart = r.Total, r.Start
		t := ledger.Tally{
			Start: time.Duration(r.Start) * time.Microsecond, Total: r.Total, Level: k.level, Window: b.Tallies[i].Window,
		}
		notes[n].Text = string(exchange.AppendNote(nil, time.Duration(r.Now)*time.Microsecond, &t))
	}
	var all []remoteTally
	missed, err := g.link.Exchange(ctx, notes, func(n int, from fleet.Peer, uptime time.Duration, t ledger.Tally) {
		if from.Name == g.region {
			return
		}
		t.Key = b.Tallies[sending[n]].Key
		all = append(all, remoteTally{key: sending[n], region: from.Name, uptime: uptime, tally: t})
	})
	g.link.Counters.Received.Add(int64(len(all)))
	lost := g.link.Lost()
	g.ledger.ResendGroups(lost)
	for key, k := range g.keys {
		if lost>>ledger.GroupOf(&key)&1 == 1 {
			k.sentTotal = -1
		}
	}
	for _, n := range missed {
		if n >= 0 && n < len(sending) {
			reports[sending[n]].failed = true
			g.keys[b.Tallies[sending[n]].Key].sentTotal = -1 // send it again
			g.ledger.Resend(b.Tallies[sending[n] : sending[n]+1])
		}
	}
	for _, i := range sending {
		if k := g.keys[b.Tallies[i].Key]; k.firstTurn == 0 && k.sentTotal >= 0 {
			k.firstTurn = g.turn
		}
	}
	g.link.Update(len(missed) < len(sending), err, nil)
	return all, err
}

// sweep forgets keys that this node has not sent for a while, and those that the ledger has dropped. It does so now and
// then, and whenever there are more than the ledger may have.
func (g *Limiter) sweep() {
	const every = 64
	if g.turn%every != 0 && len(g.keys) <= g.ledger.Options().MaxKeys+fleet.KeyGroups {
		return
	}
	now := g.clock.Elapsed()
	for key, k := range g.keys {
		_, known := g.ledger.CheckOf(key)
		if !known || k.owed == 0 && now-k.sentAt > 2*g.ledger.Options().Idle {
			delete(g.keys, key)
		}
	}
}
