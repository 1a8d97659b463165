package region

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/skew"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A keyState is a node's state of a key that it sends for the region.
type keyState struct {
	sentAt       time.Duration // uptime when the key was last sent
	sentTotal    int64         // the region's total that was sent last; -1 for none
	sentStart    int64         // response.Start when sentTotal was sent
	sentPrevious int64         // the region's units in the window before that were sent last

	// level, levelAt and regionTotal are the level, the time and the region's total when the key was last sent.
	level, levelAt, regionTotal int64
	// unused is the number of units that could have drained in this region, but did not because the bucket was empty.
	// The same number of units of other regions is not charged, because it does not exceed the limit.
	unused int64

	// firstNoteRound is the round in which this node sent its first note on the key. It is 0 if the node has sent none,
	// and -1 if other nodes of the region may have sent notes earlier.
	firstNoteRound int

	fading fadingUnits // units of the window before the open one
	faded  fadingUnits // units of the window before that

	owed    int64 // units of other regions that are still to be charged
	charged int64 // units of other regions that were charged so far
	maxDebt int64 // the largest debt since the key last had none
}

// A response is the response of the RegionStore for one key.
type response struct {
	fleet.RegionRecord
	failed bool // the RegionStore or the exchange did not respond for the key
}

// round makes one exchange. If early is set, it only sends keys that decisions wait for. It reports whether there may
// be more to send.
func (l *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	b := &l.batch
	b.Fill(l.ledger, l.link.Settings.MaxKeys, early)
	l.roundNumber++
	var responses []response
	if len(b.Tallies) > 0 {
		responses, err = l.exchangeAll(ctx)
	}
	chargeCtx, cancel := clock.WithTimeout(ctx, l.clock, l.link.Settings.Deadline)
	defer cancel()
	if early {
		l.chargeAll(chargeCtx, l.batchKeys)
	} else {
		l.chargeAll(chargeCtx, maps.All(l.keys))
		l.sweep()
	}
	l.noteLearned(ctx, responses)
	return len(b.Tallies) == l.link.Settings.MaxKeys, err
}

// exchangeAll reports the consumption of this node to the RegionStore. For the keys that this node sends, it exchanges
// totals with other regions, and computes the owed units.
func (l *Limiter) exchangeAll(ctx context.Context) ([]response, error) {
	responses, missed, err := l.sendReport(ctx, l.batch.Tallies, false)
	for _, i := range missed {
		responses[i].failed = true
	}
	l.resendMissed(missed, err)
	sending := l.keysToSend(responses)
	l.charges.sentKeys.Store(int64(len(sending)))
	if len(sending) == 0 {
		return responses, err
	}
	received, exchangeErr := l.exchangeTotals(ctx, responses, sending)
	return responses, errors.Join(err, exchangeErr, l.settleRemote(ctx, responses, received))
}

// sendReport reports this node's consumption to the RegionStore. It also reports which keys are learned, which means
// that this node knows their consumption in other regions: all keys if allLearned is set, otherwise those whose tally
// does not have PeersUnknown set.
func (l *Limiter) sendReport(
	ctx context.Context, tallies []tally.Tally, allLearned bool,
) (responses []response, missed []int, err error) {
	records := make([]fleet.NodeRecord, len(tallies))
	for i := range tallies {
		t := &tallies[i]
		records[i] = fleet.NodeRecord{
			Key: string(t.Key[:]), Start: t.Start.Microseconds(), Window: t.Window, Before: windowBefore(t, &t.Limit),
			Total: t.Total, Previous: t.Previous, Reported: t.Delivered, Learned: allLearned || !t.PeersUnknown,
			Keep: exchange.KeepFor(t),
		}
	}
	responses = make([]response, len(tallies))
	ctx, cancel := clock.WithTimeout(ctx, l.clock, l.link.Settings.Deadline)
	defer cancel()
	requestedAt := l.clock.Elapsed()
	missed, err = l.regionStore.Report(ctx, l.nodeName, l.link.Settings.Interval, records,
		func(i int, r fleet.RegionRecord) { responses[i].RegionRecord = r })
	l.compareClocks(responses, requestedAt)
	return responses, missed, err
}

// compareClocks compares the clock of the region's store, which its windows use, with the fleet's.
func (l *Limiter) compareClocks(responses []response, requestedAt time.Duration) {
	i := slices.IndexFunc(responses, func(r response) bool { return r.Now != 0 })
	if i < 0 || !l.link.ClockSkew.Known() {
		return
	}
	reading := time.UnixMicro(responses[i].Now).Sub(l.clock.Start)
	storeSkew := l.storeClock.Update(reading, requestedAt, l.clock.Elapsed()) - l.link.ClockSkew.Ahead()
	l.storeSkew.Store(int64(storeSkew))
	if tooLarge := skew.IsTooLarge(storeSkew, l.storeSkewReported); tooLarge != l.storeSkewReported {
		l.storeSkewReported = tooLarge
		kind := fleet.StoreClockInSync
		if tooLarge {
			kind = fleet.StoreClockOutOfSync
		}
		l.link.Settings.OnEvent(fleet.Event{Kind: kind, Offset: storeSkew})
	}
}

// resendMissed marks tallies that the RegionStore did not receive as not sent, so that the ledger returns them again.
func (l *Limiter) resendMissed(missed []int, err error) {
	if err != nil {
		l.link.Counters.Failures.Add(1)
		l.ledger.Resend(l.batch.Pick(missed))
	}
}

// keysToSend returns the indices in the batch of the keys that this node sends for the region. It adds a keyState for
// new keys, and measures the levels.
func (l *Limiter) keysToSend(responses []response) (indices []int) {
	for i := range responses {
		if !responses[i].IsSender {
			continue
		}
		indices = append(indices, i)
		key := l.batch.Tallies[i].Key
		k := l.keys[key]
		if k == nil {
			k = &keyState{sentTotal: -1}
			if responses[i].Now-responses[i].Start > l.link.Settings.Interval.Microseconds() {
				k.firstNoteRound = -1
			}
			l.keys[key] = k
		}
		k.sentAt = l.clock.Elapsed()
		l.measureLevel(k, &l.batch.Tallies[i], &responses[i])
	}
	return indices
}

// measureLevel updates k.unused. It compares the level with the expected level, which is the last level plus the
// region's new units, minus all units that could drain in that time. Nodes report a little later than they consume, so
// the result can be too high or too low. The next comparison corrects it.
func (l *Limiter) measureLevel(k *keyState, t *tally.Tally, r *response) {
	p, level := l.ledger.LevelOf(t.Key)
	if p == nil || !p.IsBucket() {
		return
	}
	if k.levelAt != 0 && r.Now > k.levelAt {
		expected := k.level + r.Total - k.regionTotal - p.UnitsIn(r.Now-k.levelAt)
		// Units of other regions arrive within about two intervals, so units that could have drained earlier do not belong to
		// them. The lower bound limits the effect of a wrong comparison.
		maxUnused := p.UnitsIn(2 * l.link.Settings.Interval.Microseconds())
		k.unused = min(max(k.unused+level-expected, -p.Capacity()), maxUnused)
	}
	k.level, k.levelAt, k.regionTotal = level, r.Now, r.Total
}

// exchangeTotals sends this region's totals of keys to the other regions, and returns their totals. sending has the
// indices of the keys in the batch.
func (l *Limiter) exchangeTotals(ctx context.Context, responses []response, sending []int) ([]remoteTally, error) {
	b := &l.batch
	notes := make([]fleet.Note, len(sending))
	for n, i := range sending {
		notes[n] = b.Notes[i]
		notes[n].Text = ""
		r, k := &responses[i], l.keys[b.Tallies[i].Key]
		if k.sentTotal == r.Total && k.sentStart == r.Start && k.sentPrevious == r.Previous {
			continue // other regions know this total
		}
		k.sentTotal, k.sentStart, k.sentPrevious = r.Total, r.Start, r.Previous
		t := tally.Tally{
			Limit: b.Tallies[i].Limit, Start: time.Duration(r.Start) * time.Microsecond, Total: r.Total, Level: k.level,
			Window: b.Tallies[i].Window, Previous: r.Previous,
		}
		if t.Window != 0 {
			t.Level = 0 // other regions read only the totals of windows
		}
		notes[n].Text = string(exchange.AppendNote(nil, time.Duration(r.Now)*time.Microsecond, &t))
	}
	var all []remoteTally
	missed, err := l.link.Exchange(ctx, notes, func(n int, from fleet.Peer, uptime time.Duration, t tally.Tally) {
		if from.Name == l.region {
			return
		}
		ours := &b.Tallies[sending[n]]
		t.Key = ours.Key
		exchange.ReadPrevious(&t, &ours.Limit)
		all = append(all, remoteTally{key: sending[n], region: from.Name, uptime: uptime, tally: t})
	})
	l.link.Counters.Received.Add(int64(len(all)))
	lost := l.link.Lost()
	l.ledger.ResendGroups(lost)
	for key, k := range l.keys {
		if lost>>tally.GroupOf(&key)&1 == 1 {
			k.sentTotal = -1
		}
	}
	for _, n := range missed {
		if n < 0 || n >= len(sending) {
			continue // the Exchange has a bug, because this is not an index of notes
		}
		i := sending[n]
		responses[i].failed = true
		l.keys[b.Tallies[i].Key].sentTotal = -1 // send the key again
		l.ledger.Resend(b.Tallies[i : i+1])
	}
	for _, i := range sending {
		if k := l.keys[b.Tallies[i].Key]; k.firstNoteRound == 0 && k.sentTotal >= 0 {
			k.firstNoteRound = l.roundNumber
		}
	}
	succeeded := len(missed) < len(sending) // for at least one key
	l.link.Update(succeeded, err, nil)      // no callback: decisions do not depend on the exchange
	return all, err
}

// sweep removes keys that this node has not sent for a while, and keys that the ledger has dropped. It does so every 64
// rounds, and whenever there are more keys than the ledger may have.
func (l *Limiter) sweep() {
	const sweepRounds = 64
	if l.roundNumber%sweepRounds != 0 && len(l.keys) <= l.ledger.Options().MaxKeys+fleet.KeyGroups {
		return
	}
	now := l.clock.Elapsed()
	for key, k := range l.keys {
		_, known := l.ledger.CheckOf(key)
		if !known || k.owed+k.fading.counted == 0 && now-k.sentAt > 2*l.ledger.Options().Idle {
			delete(l.keys, key)
		}
	}
}
