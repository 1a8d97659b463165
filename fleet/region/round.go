package region

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/exchange"
	"github.com/headgate/headgate/fleet/internal/ledger"
	"github.com/headgate/headgate/fleet/internal/quota"
	"github.com/headgate/headgate/fleet/internal/rounds"
	"github.com/headgate/headgate/fleet/internal/skew"
)

// A regionKey is what a node knows of a key that it speaks for.
type regionKey struct {
	spoke time.Duration // by the clock: when it last did
	total int64         // that it told last; -1 if it did not
	start int64         // of that

	// level, at and seen are how things stood when it last spoke: what counted as consumed, when, and the total. waste is
	// what has leaked away unused in the region since, in units: what other regions consumed meanwhile was not too much.
	level, at, seen int64
	waste           int64

	left    int   // the turn when notes were first left; before all turns if other nodes may have left some; 0 if nobody has
	owed    int64 // of other regions, to be charged
	charged int64 // of other regions
	over    int64 // the deepest debt since there was none
}

// A report is what the book says of one key.
type report struct {
	speaks            bool
	known             bool // the region knows what others consumed
	failed            bool // the book or the exchange did not answer for it
	start, total, now int64
}

// A hearsay is what another region says of one key.
type hearsay struct {
	key    int
	region string
	uptime time.Duration
	tally  ledger.Tally
}

// round makes one exchange, early if only of keys that decisions wait for. It reports whether there may be more to tell.
func (g *Limiter) round(ctx context.Context, early bool) (more bool, err error) {
	b := &g.batch
	b.Fill(g.ledger, g.settings.MaxKeys, early)
	g.turn++
	var reports []report
	if len(b.Tallies) > 0 {
		reports, err = g.exchangeAll(ctx)
	}
	charging, done := rounds.WithTimeout(ctx, g.clock, g.settings.Deadline)
	defer done()
	if early {
		g.chargeBatch(charging)
	} else {
		g.chargeAll(charging)
		g.sweep()
	}
	g.learned(ctx, reports)
	return len(b.Tallies) == g.settings.MaxKeys, err
}

func (g *Limiter) exchangeAll(ctx context.Context) ([]report, error) {
	reports, missed, err := g.report(ctx, g.batch.Tallies, false)
	for _, i := range missed {
		reports[i].failed = true
	}
	g.settle(missed, err) // its own Redis is no other region; but what is not added up is told again
	speaking := g.speaking(reports)
	g.charges.spoken.Store(int64(len(speaking)))
	if len(speaking) == 0 {
		return reports, err
	}
	heard, abroad := g.goAbroad(ctx, reports, speaking)
	return reports, errors.Join(err, abroad, g.bringHome(ctx, reports, heard))
}

// report adds up what this node consumed with the others of its region, and tells them whether it knows what other regions
// consumed: of all keys if learned, else of those that are.
func (g *Limiter) report(ctx context.Context, tallies []ledger.Tally, learned bool) ([]report, []int, error) {
	n := len(tallies)
	keys, keeps, knows := make([]string, n), make([]time.Duration, n), make([]bool, n)
	starts, windows, totals, told := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range tallies {
		t := &tallies[i]
		keys[i], keeps[i], knows[i] = string(t.Key[:]), exchange.KeepFor(t), learned || !t.Unlearned
		starts[i], windows[i], totals[i], told[i] = t.Start.Microseconds(), t.Window, t.Total, t.Delivered
	}
	reports := make([]report, n)
	ctx, done := rounds.WithTimeout(ctx, g.clock, g.settings.Deadline)
	defer done()
	asked := g.clock.Now()
	missed, err := g.book.Report(ctx, g.life, keys, starts, windows, totals, told, knows, keeps, g.settings.Interval,
		func(key int, speaks, known bool, start, total, now int64) {
			reports[key] = report{speaks: speaks, known: known, start: start, total: total, now: now}
		})
	g.compare(reports, asked)
	return reports, missed, err
}

// compare looks whether the date of the region's store, by which it counts windows, is that of the other regions.
func (g *Limiter) compare(reports []report, asked time.Duration) {
	i := slices.IndexFunc(reports, func(r report) bool { return r.now != 0 })
	if i < 0 || !g.clockSkew.Known() {
		return
	}
	date := time.Duration(reports[i].now-g.counting.Epoch.UnixMicro()) * time.Microsecond
	off := g.home.Update(date, asked, g.clock.Now()) - g.clockSkew.Ahead()
	g.homeOff.Store(int64(off))
	if is := skew.IsOff(off, g.toldHome); is != g.toldHome {
		g.toldHome = is
		kind := fleet.StoreClockRight
		if is {
			kind = fleet.StoreClockOff
		}
		g.settings.OnEvent(fleet.Event{Kind: kind, Off: off})
	}
}

// settle has told again what the book has not got.
func (g *Limiter) settle(missed []int, err error) {
	if err != nil {
		g.counters.Failures.Add(1)
		g.ledger.Resend(g.batch.Pick(missed))
	}
}

// speaking returns for which keys this node speaks, and notes how things stand.
func (g *Limiter) speaking(reports []report) []int {
	var list []int
	for i := range reports {
		if !reports[i].speaks {
			continue
		}
		list = append(list, i)
		key := g.batch.Tallies[i].Key
		k := g.keys[key]
		if k == nil {
			k = &regionKey{total: -1}
			if reports[i].now-reports[i].start > g.settings.Interval.Microseconds() {
				k.left = -1
			}
			g.keys[key] = k
		}
		k.spoke = g.clock.Now()
		g.stand(k, &g.batch.Tallies[i], &reports[i])
	}
	return list
}

// stand compares what counts as consumed with what would if nothing had leaked away unused. Nodes report a little later than
// they consume, so one comparison can be wrong either way; the next makes up for it.
func (g *Limiter) stand(k *regionKey, t *ledger.Tally, r *report) {
	p, level := g.ledger.LevelOf(t.Key)
	if p == nil || !p.IsBucket() {
		return
	}
	if k.at != 0 && r.now > k.at {
		expected := k.level + r.total - k.seen - p.UnitsIn(r.now-k.at, headgate.MaxCount)
		most := p.UnitsIn(2*g.settings.Interval.Microseconds(), headgate.MaxCount)
		k.waste = min(max(k.waste+level-expected, -p.Capacity()), most)
	}
	k.level, k.at, k.seen = level, r.now, r.total
}

// goAbroad leaves notes for other regions and returns what they left.
func (g *Limiter) goAbroad(ctx context.Context, reports []report, speaking []int) ([]hearsay, error) {
	b := &g.batch
	keys, notes, keep := make([]string, len(speaking)), make([]string, len(speaking)), make([]time.Duration, len(speaking))
	whole := make([]bool, len(speaking))
	for n, i := range speaking {
		keys[n], keep[n], whole[n] = b.Keys[i], b.Keep[i], b.AllNotes[i]
		r, k := &reports[i], g.keys[b.Tallies[i].Key]
		if k.total == r.total && k.start == r.start {
			continue // others know it
		}
		k.total, k.start = r.total, r.start
		note := ledger.Tally{Start: time.Duration(r.start) * time.Microsecond, Total: r.total, Level: k.level, Window: b.Tallies[i].Window}
		notes[n] = string(exchange.AppendNote(nil, time.Duration(r.now)*time.Microsecond, &note))
	}
	ctx, done := rounds.WithTimeout(ctx, g.clock, g.settings.Deadline)
	defer done()
	var all []hearsay
	g.began = g.clock.Now()
	missed, err := g.exchange.Exchange(ctx, keys, notes, keep, whole, func(key int, author, note string, age time.Duration) {
		h := hearsay{}
		from, ok := exchange.ParseAuthor(author)
		uptime, read := exchange.ReadNote(note, &h.tally)
		if !ok || !read || key < 0 || key >= len(speaking) {
			g.counters.Malformed.Add(1)
			g.warnings.Malformed(g.clock.Now(), author)
			return
		}
		if from.Name == g.region {
			return
		}
		h.key, h.region, h.uptime = speaking[key], from.Name, uptime
		h.tally.Key = b.Tallies[h.key].Key
		h.tally.Age = max(0, age) + g.clock.Now() - g.began
		all = append(all, h)
	})
	g.counters.Exchanges.Add(1)
	g.counters.Sent.Add(int64(len(speaking) - len(missed)))
	g.counters.Received.Add(int64(len(all)))
	g.counters.RoundTrip.Store(int64(g.clock.Now() - g.began))
	if f, ok := g.exchange.(fleet.LossReporter); ok {
		lost := f.Lost()
		g.ledger.ResendGroups(lost)
		for key, k := range g.keys {
			if lost>>ledger.GroupOf(&key)&1 == 1 {
				k.total = -1
			}
		}
	}
	for _, n := range missed {
		if n >= 0 && n < len(speaking) {
			reports[speaking[n]].failed = true
			g.keys[b.Tallies[speaking[n]].Key].total = -1 // to be told again
			g.ledger.Resend(b.Tallies[speaking[n] : speaking[n]+1])
		}
	}
	for _, i := range speaking {
		if k := g.keys[b.Tallies[i].Key]; k.left == 0 && k.total >= 0 {
			k.left = g.turn
		}
	}
	return all, g.judge(len(missed) < len(speaking), err)
}

// judge draws the consequences of an exchange, and returns what is wrong with it.
func (g *Limiter) judge(answered bool, err error) error {
	now := g.clock.Now()
	var f interface{ Foreign() bool }
	if errors.As(err, &f) && f.Foreign() {
		g.counters.Foreign.Add(1)
		g.warnings.Foreign(now, err)
		err = nil
	}
	if err != nil {
		g.counters.Failures.Add(1)
	}
	switch silent := now - g.last; {
	case answered:
		if g.since != 0 {
			g.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeReachable, Down: now - g.since})
		}
		g.last, g.since = now, 0
		g.counters.Unreachable.Store(false)
	case g.since == 0 && silent >= time.Duration(g.settings.Missed)*g.settings.Interval:
		g.since = max(1, g.last)
		g.counters.Unreachable.Store(true)
		g.settings.OnEvent(fleet.Event{Kind: fleet.ExchangeUnreachable, Err: err})
	}
	return err
}

// bringHome finds out what of the hearsay is news to the region, and notes what is to be charged.
func (g *Limiter) bringHome(ctx context.Context, reports []report, heard []hearsay) error {
	if len(heard) == 0 {
		return nil
	}
	b := &g.batch
	heard = slices.DeleteFunc(heard, func(h hearsay) bool {
		why := h.tally.Impossible(h.uptime)
		if why != "" {
			g.refuse(&h, why)
		}
		return why != ""
	})
	n := len(heard)
	keys, regions, keep := make([]string, n), make([]string, n), make([]time.Duration, n)
	starts, totals, said := make([]int64, n), make([]int64, n), make([]int64, n)
	all, most := make([]int64, n), make([]int64, n)
	for i := range heard {
		h := &heard[i]
		keys[i], regions[i], keep[i] = b.Keys[h.key], h.region, b.Keep[h.key]
		starts[i], totals[i], said[i] = h.tally.Start.Microseconds(), h.tally.Total, h.uptime.Microseconds()
		all[i], most[i] = g.believe(h)
	}
	ctx, done := rounds.WithTimeout(ctx, g.clock, g.settings.Deadline)
	defer done()
	missed, err := g.book.Settle(ctx, keys, regions, starts, totals, said, all, most, keep, func(i int, units int64, first, leaped, fell bool) {
		switch h := &heard[i]; {
		case leaped:
			g.refuse(h, ledger.ReasonLeaped)
		case fell:
			g.refuse(h, ledger.ReasonFell)
		}
		g.heed(&heard[i], &reports[heard[i].key], units, first)
	})
	for _, i := range missed {
		reports[heard[i].key].failed = true
	}
	if err != nil {
		g.counters.Failures.Add(1)
	}
	return err
}

// age is for how long the region has kept account of the key.
func (h *hearsay) age() time.Duration { return max(0, h.uptime-h.tally.Start) + h.tally.Age }

// refuse reports what a region says and cannot be true.
func (g *Limiter) refuse(h *hearsay, why string) {
	g.ledger.Refuse(fleet.Peer{Name: h.region}, why)
}

// believe cuts a tally to what can be true: a level to the deepest debt, and a total to that and what has leaked since. It returns
// the latter, and how much of it can be news to who knew of it before.
func (g *Limiter) believe(h *hearsay) (all, most int64) {
	t := &h.tally
	p, _ := g.ledger.LevelOf(t.Key)
	if p == nil {
		return headgate.MaxCount, headgate.MaxCount
	}
	deepest := (1 + headgate.MaxDebt) * p.Capacity()
	all = deepest + p.UnitsIn(2*h.age().Microseconds(), headgate.MaxCount)
	t.Total, t.Level = min(t.Total, all), min(t.Level, deepest)
	return all, headgate.MaxDebt*p.Capacity() + p.UnitsIn(2*min(h.age(), g.settings.Interval*100).Microseconds(), headgate.MaxCount)
}

// heed notes what of the news is to be charged.
func (g *Limiter) heed(h *hearsay, r *report, units int64, first bool) {
	t := &h.tally
	g.ledger.CountLag(t.Age)
	p, level := g.ledger.LevelOf(t.Key)
	if p == nil || units <= 0 {
		return
	}
	k := g.keys[t.Key]
	age := h.age()
	g.ledger.CountApplied(units)
	// Its speaker may not have seen what others of its region consumed, but no more than all can have leaked.
	still := max(t.Level, t.Total-p.UnitsIn((h.uptime-t.Start).Microseconds(), t.Total))
	still -= p.UnitsIn(t.Age.Microseconds(), still)
	switch ours := time.Duration(r.now-r.start) * time.Microsecond; {
	case p.HasWindows():
		k.owed += g.ofWindow(p, t, units)
	case first && age > ours+g.counting.Lag: // we are the newcomer, and begin where the other is
		own := int64(0)
		switch {
		case k.left != g.turn && t.Age < ours: // it may know of what this region consumed
		case ours < g.settings.Interval: // others of this region have yet to report, and nobody else has charged anything
			own = max(0, level-k.charged)
		default:
			own = min(r.total, level)
		}
		k.owed += max(0, still+own-level-k.owed)
	default:
		used := min(max(0, k.waste), max(0, units-still))
		k.waste -= used
		k.owed += units - used
	}
}

// ofWindow returns how much of the news of a window counts now.
func (g *Limiter) ofWindow(p *quota.Plan, t *ledger.Tally, units int64) int64 {
	offset := int64(0)
	if c, ok := g.ledger.CheckOf(t.Key); ok && p.Limit.Staggered {
		offset = p.Offset(c.Key)
	}
	at := g.ledger.Time(p, offset)
	switch w := p.WindowOf(at); {
	case t.Window >= w:
		return units
	case p.Kind == algorithm.KindWindows && t.Window >= w-p.Period: // it weighs less and less until the window ends
		return units * ((w + p.Period - at) / 1000) / max(1, p.Period/1000)
	default:
		return 0
	}
}

// sweep forgets keys that this node has not spoken for in a while, and those that the ledger has forgotten. It does so now
// and then, and whenever there are more than the ledger may have.
func (g *Limiter) sweep() {
	const every = 64
	if g.turn%every != 0 && len(g.keys) <= g.counting.MaxKeys+fleet.KeyGroups {
		return
	}
	now := g.clock.Now()
	for key, k := range g.keys {
		_, known := g.ledger.CheckOf(key)
		if !known || k.owed == 0 && now-k.spoke > 2*g.counting.Idle {
			delete(g.keys, key)
		}
	}
}
