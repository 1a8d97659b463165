package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
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
	tally  Tally
}

// round makes one exchange, early if only of keys that decisions wait for. It reports whether there may be more to tell.
func (g *Region) round(ctx context.Context, early bool) (more bool, err error) {
	b := &g.batch
	b.fill(g.ledger, g.options.MaxKeys, early)
	g.turn++
	var reports []report
	if len(b.tallies) > 0 {
		reports, err = g.exchangeAll(ctx)
	}
	charging, done := within(ctx, g.clock, g.options.Deadline)
	defer done()
	if early {
		g.chargeBatch(charging)
	} else {
		g.chargeAll(charging)
		g.sweep()
	}
	g.learned(ctx, reports)
	return len(b.tallies) == g.options.MaxKeys, err
}

func (g *Region) exchangeAll(ctx context.Context) ([]report, error) {
	reports, missed, err := g.report(ctx, g.batch.tallies, false)
	for _, i := range missed {
		reports[i].failed = true
	}
	g.settle(missed, err) // its own Redis is no other region; but what is not added up is told again
	speaking := g.speaking(reports)
	g.region.spoken.Store(int64(len(speaking)))
	if len(speaking) == 0 {
		return reports, err
	}
	heard, abroad := g.goAbroad(ctx, reports, speaking)
	return reports, errors.Join(err, abroad, g.bringHome(ctx, reports, heard))
}

// report adds up what this node consumed with the others of its region, and tells them whether it knows what other regions
// consumed: of all keys if learned, else of those that are.
func (g *Region) report(ctx context.Context, tallies []Tally, learned bool) ([]report, []int, error) {
	n := len(tallies)
	keys, keeps, knows := make([]string, n), make([]time.Duration, n), make([]bool, n)
	starts, windows, totals, told := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range tallies {
		t := &tallies[i]
		keys[i], keeps[i], knows[i] = string(t.Key[:]), keep(t), learned || !t.unlearned
		starts[i], windows[i], totals[i], told[i] = t.Start.Microseconds(), t.Window, t.Total, t.told
	}
	reports := make([]report, n)
	ctx, done := within(ctx, g.clock, g.options.Deadline)
	defer done()
	asked := g.clock.Now()
	missed, err := g.book.Report(ctx, g.life, keys, starts, windows, totals, told, knows, keeps, g.options.Interval,
		func(key int, speaks, known bool, start, total, now int64) {
			reports[key] = report{speaks: speaks, known: known, start: start, total: total, now: now}
		})
	g.compare(reports, asked)
	return reports, missed, err
}

// compare looks whether the date of the region's store, by which it counts windows, is that of the other regions.
func (g *Region) compare(reports []report, asked time.Duration) {
	i := slices.IndexFunc(reports, func(r report) bool { return r.now != 0 })
	if i < 0 || !g.calendar.known() {
		return
	}
	date := time.Duration(reports[i].now-g.ledger.epoch) * time.Microsecond
	off := g.home.read(date, asked, g.clock.Now()) - time.Duration(g.calendar.ahead.Load())
	g.homeOff.Store(int64(off))
	if is := isOff(off, g.toldHome); is != g.toldHome {
		g.toldHome = is
		kind := StoreDateRight
		if is {
			kind = StoreDateOff
		}
		g.options.OnEvent(AsyncEvent{Kind: kind, Off: off})
	}
}

// settle has told again what the book has not got.
func (g *Region) settle(missed []int, err error) {
	if err != nil {
		g.counters.failures.Add(1)
		g.ledger.Retell(g.batch.pick(missed))
	}
}

// speaking returns for which keys this node speaks, and notes how things stand.
func (g *Region) speaking(reports []report) []int {
	var list []int
	for i := range reports {
		if !reports[i].speaks {
			continue
		}
		list = append(list, i)
		key := g.batch.tallies[i].Key
		k := g.keys[key]
		if k == nil {
			k = &regionKey{total: -1}
			if reports[i].now-reports[i].start > g.options.Interval.Microseconds() {
				k.left = -1
			}
			g.keys[key] = k
		}
		k.spoke = g.clock.Now()
		g.stand(k, &g.batch.tallies[i], &reports[i])
	}
	return list
}

// stand compares what counts as consumed with what would if nothing had leaked away unused. Nodes report a little later than
// they consume, so one comparison can be wrong either way; the next makes up for it.
func (g *Region) stand(k *regionKey, t *Tally, r *report) {
	p, level := g.ledger.levelOf(t.Key)
	if p == nil || !p.leaks() {
		return
	}
	if k.at != 0 && r.now > k.at {
		expected := k.level + r.total - k.seen - p.unitsIn(r.now-k.at, headgate.MaxCount)
		most := p.unitsIn(2*g.options.Interval.Microseconds(), headgate.MaxCount)
		k.waste = min(max(k.waste+level-expected, -p.Capacity()), most)
	}
	k.level, k.at, k.seen = level, r.now, r.total
}

// goAbroad leaves notes for other regions and returns what they left.
func (g *Region) goAbroad(ctx context.Context, reports []report, speaking []int) ([]hearsay, error) {
	b := &g.batch
	keys, notes, keep := make([]string, len(speaking)), make([]string, len(speaking)), make([]time.Duration, len(speaking))
	whole := make([]bool, len(speaking))
	for n, i := range speaking {
		keys[n], keep[n], whole[n] = b.keys[i], b.keep[i], b.all[i]
		r, k := &reports[i], g.keys[b.tallies[i].Key]
		if k.total == r.total && k.start == r.start {
			continue // others know it
		}
		k.total, k.start = r.total, r.start
		note := Tally{Start: time.Duration(r.start) * time.Microsecond, Total: r.total, Level: k.level, Window: b.tallies[i].Window}
		notes[n] = string(appendNote(nil, time.Duration(r.now)*time.Microsecond, &note))
	}
	ctx, done := within(ctx, g.clock, g.options.Deadline)
	defer done()
	var all []hearsay
	g.began = g.clock.Now()
	missed, err := g.exchange.Exchange(ctx, keys, notes, keep, whole, func(key int, author, note string, age time.Duration) {
		h := hearsay{}
		from, ok := peerOf(author)
		uptime, read := readNote(note, &h.tally)
		if !ok || !read || key < 0 || key >= len(speaking) {
			g.counters.garbled.Add(1)
			g.strangers.garbled(g.clock.Now(), author)
			return
		}
		if from.Name == g.options.Region {
			return
		}
		h.key, h.region, h.uptime = speaking[key], from.Name, uptime
		h.tally.Key = b.tallies[h.key].Key
		h.tally.Age = max(0, age) + g.clock.Now() - g.began
		all = append(all, h)
	})
	g.counters.exchanges.Add(1)
	g.counters.sent.Add(int64(len(speaking) - len(missed)))
	g.counters.heard.Add(int64(len(all)))
	g.counters.trip.Store(int64(g.clock.Now() - g.began))
	if f, ok := g.exchange.(Forgetful); ok {
		lost := f.Lost()
		g.ledger.retellAll(lost)
		for key, k := range g.keys {
			if lost>>groupOf(&key)&1 == 1 {
				k.total = -1
			}
		}
	}
	for _, n := range missed {
		if n >= 0 && n < len(speaking) {
			reports[speaking[n]].failed = true
			g.keys[b.tallies[speaking[n]].Key].total = -1 // to be told again
			g.ledger.Retell(b.tallies[speaking[n] : speaking[n]+1])
		}
	}
	for _, i := range speaking {
		if k := g.keys[b.tallies[i].Key]; k.left == 0 && k.total >= 0 {
			k.left = g.turn
		}
	}
	return all, g.judge(len(missed) < len(speaking), err)
}

// judge draws the consequences of an exchange, and returns what is wrong with it.
func (g *Region) judge(answered bool, err error) error {
	now := g.clock.Now()
	var f interface{ Foreign() bool }
	if errors.As(err, &f) && f.Foreign() {
		g.counters.foreign.Add(1)
		g.strangers.areForeign(now, err)
		err = nil
	}
	if err != nil {
		g.counters.failures.Add(1)
	}
	switch silent := now - g.last; {
	case answered:
		if g.since != 0 {
			g.options.OnEvent(AsyncEvent{Kind: ExchangeBack, Down: now - g.since})
		}
		g.last, g.since = now, 0
		g.counters.away.Store(false)
	case g.since == 0 && silent >= time.Duration(g.options.Missed)*g.options.Interval:
		g.since = max(1, g.last)
		g.counters.away.Store(true)
		g.options.OnEvent(AsyncEvent{Kind: ExchangeAway, Err: err})
	}
	return err
}

// bringHome finds out what of the hearsay is news to the region, and notes what is to be charged.
func (g *Region) bringHome(ctx context.Context, reports []report, heard []hearsay) error {
	if len(heard) == 0 {
		return nil
	}
	b := &g.batch
	heard = slices.DeleteFunc(heard, func(h hearsay) bool {
		why := h.tally.wrong(h.uptime)
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
		keys[i], regions[i], keep[i] = b.keys[h.key], h.region, b.keep[h.key]
		starts[i], totals[i], said[i] = h.tally.Start.Microseconds(), h.tally.Total, h.uptime.Microseconds()
		all[i], most[i] = g.believe(h)
	}
	ctx, done := within(ctx, g.clock, g.options.Deadline)
	defer done()
	missed, err := g.book.Settle(ctx, keys, regions, starts, totals, said, all, most, keep, func(i int, units int64, first, leaped, fell bool) {
		switch h := &heard[i]; {
		case leaped:
			g.refuse(h, whyLeaped)
		case fell:
			g.refuse(h, whyFell)
		}
		g.heed(&heard[i], &reports[heard[i].key], units, first)
	})
	for _, i := range missed {
		reports[heard[i].key].failed = true
	}
	if err != nil {
		g.counters.failures.Add(1)
	}
	return err
}

// age is for how long the region has kept account of the key.
func (h *hearsay) age() time.Duration { return max(0, h.uptime-h.tally.Start) + h.tally.Age }

// refuse reports what a region says and cannot be true.
func (g *Region) refuse(h *hearsay, why string) {
	g.ledger.refuse(Peer{Name: h.region}, &h.tally, why, g.ledger.now())
}

// believe cuts a tally to what can be true: a level to the deepest debt, and a total to that and what has leaked since. It returns
// the latter, and how much of it can be news to who knew of it before.
func (g *Region) believe(h *hearsay) (all, most int64) {
	t := &h.tally
	p, _ := g.ledger.levelOf(t.Key)
	if p == nil {
		return headgate.MaxCount, headgate.MaxCount
	}
	deepest := (1 + headgate.MaxDebt) * p.Capacity()
	all = deepest + p.unitsIn(2*h.age().Microseconds(), headgate.MaxCount)
	t.Total, t.Level = min(t.Total, all), min(t.Level, deepest)
	return all, headgate.MaxDebt*p.Capacity() + p.unitsIn(2*min(h.age(), g.options.Interval*100).Microseconds(), headgate.MaxCount)
}

// heed notes what of the news is to be charged.
func (g *Region) heed(h *hearsay, r *report, units int64, first bool) {
	t := &h.tally
	now := g.ledger.now()
	g.ledger.counters.heard(t.Age, now.clock)
	p, level := g.ledger.levelOf(t.Key)
	if p == nil || units <= 0 {
		return
	}
	k := g.keys[t.Key]
	age := h.age()
	g.ledger.counters.absorbed.Add(units)
	// Its speaker may not have seen what others of its region consumed, but no more than all can have leaked.
	still := max(t.Level, t.Total-p.unitsIn((h.uptime-t.Start).Microseconds(), t.Total))
	still -= p.unitsIn(t.Age.Microseconds(), still)
	switch ours := time.Duration(r.now-r.start) * time.Microsecond; {
	case p.windowed():
		k.owed += g.ofWindow(p, t, units, now)
	case first && age > ours+g.ledger.options.Lag: // we are the newcomer, and begin where the other is
		own := int64(0)
		switch {
		case k.left != g.turn && t.Age < ours: // it may know of what this region consumed
		case ours < g.options.Interval: // others of this region have yet to report, and nobody else has charged anything
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
func (g *Region) ofWindow(p *plan, t *Tally, units int64, now moment) int64 {
	offset := int64(0)
	if c, ok := g.ledger.checkOf(t.Key); ok && p.limit.Staggered {
		offset = p.Offset(c.Key)
	}
	at := p.at(now, offset)
	switch w := p.window(at); {
	case t.Window >= w:
		return units
	case p.kind == algorithm.KindWindows && t.Window >= w-p.period: // it weighs less and less until the window ends
		return units * ((w + p.period - at) / 1000) / max(1, p.period/1000)
	default:
		return 0
	}
}

// sweep forgets keys that this node has not spoken for in a while, and those that the ledger has forgotten. It does so now
// and then, and whenever there are more than the ledger may have.
func (g *Region) sweep() {
	const every = 64
	if g.turn%every != 0 && len(g.keys) <= g.ledger.options.MaxKeys+shards {
		return
	}
	now := g.clock.Now()
	for key, k := range g.keys {
		_, known := g.ledger.checkOf(key)
		if !known || k.owed == 0 && now-k.spoke > 2*g.ledger.options.Idle {
			delete(g.keys, key)
		}
	}
}
