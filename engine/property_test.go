package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// seed is what every random history is drawn from, so that a failure comes back.
const seed = 20261

// A ledger is what one client has consumed, kept apart from all stores.
type ledger struct{ entries []entry }

type entry struct {
	at    time.Duration
	units int64
}

// over returns the first entry since which more was consumed than a bucket can have let pass, nil if there is none.
func (l *ledger) over(now time.Duration, burst, count int64, period time.Duration) *entry {
	var sum int64
	for i := len(l.entries) - 1; i >= 0; i-- {
		e := &l.entries[i]
		sum += e.units
		if since := now - e.at; sum > burst+int64(since/time.Microsecond)*count/period.Microseconds() {
			return e
		}
	}
	return nil
}

// A pending request was let pass and has not ended.
type pending struct {
	v     *engine.Verdict
	who   string
	entry int
	cost  int64
}

// Whatever happens to rules and requests, no client gets more than the highest limit it ever had: burst + rate·t.
func TestNeverMoreThanTheLimit(t *testing.T) {
	t.Logf("seed %d", seed)
	const histories, steps, users = 40, 400, 3
	passed, denied := 0, 0
	for h := range uint64(histories) {
		from := rand.New(rand.NewPCG(seed, h))
		settles := from.IntN(2) == 0
		highest := headgate.Limit{Count: 6 + from.Int64N(10), Period: time.Second, Burst: 5 + from.Int64N(20)}
		// Revisions of the rule: the same or less, by one of two algorithms that understand each other, and sometimes
		// rejected requests count.
		revise := func() *match.Set {
			l := highest
			if from.IntN(2) == 0 {
				l.Count, l.Burst = 5+from.Int64N(l.Count-4), 5+from.Int64N(l.Burst-4)
			}
			if from.IntN(2) == 0 {
				l.Algorithm = headgate.GCRA
			}
			r := rules.Rule{ID: "a", Key: by(user), Limits: []rules.Limit{{Name: "x", Limit: l}}, CountRejected: from.IntN(4) == 0}
			if settles {
				r.Cost = rules.Cost{ResponseHeader: "X-Used", Estimate: 2, Max: 5}
			} else {
				r.Cost = rules.Cost{Header: "X-Cost", Max: 5}
			}
			list := []rules.Rule{r}
			if from.IntN(2) == 0 { // another that denies now and then, so that what was taken must be given back
				list = append(list, rules.Rule{ID: "all", Limits: limits("20/s burst 10")})
			}
			return compile(t, list)
		}
		b := newBench(t)
		if err := b.SetRules(revise()); err != nil {
			t.Fatal(err)
		}
		ledgers := map[string]*ledger{}
		var open []pending
		var now time.Duration
		for step := range steps {
			pause := time.Duration(from.Int64N(int64(100 * time.Millisecond))).Truncate(time.Microsecond)
			b.Advance(pause)
			now += pause
			switch from.IntN(10) {
			case 0:
				if err := b.SetRules(revise()); err != nil {
					t.Fatal(err)
				}
			case 1, 2, 3:
				if len(open) == 0 {
					continue
				}
				i := from.IntN(len(open))
				p := open[i]
				open = append(open[:i], open[i+1:]...)
				l := ledgers[p.who]
				if from.IntN(2) == 0 {
					cancel(t, p.v)
					l.entries[p.entry].units = 0
					continue
				}
				used := from.Int64N(6)
				settle(t, p.v, map[string]string{"X-Used": strconv.FormatInt(used, 10)})
				if !settles {
					continue
				}
				if used < p.cost {
					l.entries[p.entry].units = used
				} else {
					l.entries = append(l.entries, entry{now, used - p.cost})
				}
			default:
				who := fmt.Sprint("user", from.IntN(users))
				request := rules.Attributes{user: who}
				cost := int64(2)
				if !settles {
					cost = 1 + from.Int64N(5)
					request[header("x-cost")] = strconv.FormatInt(cost, 10)
				}
				v := b.ask(request)
				if !v.Action.Passes() {
					denied++
					continue
				}
				passed++
				if ledgers[who] == nil {
					ledgers[who] = &ledger{}
				}
				l := ledgers[who]
				l.entries = append(l.entries, entry{now, cost})
				open = append(open, pending{v, who, len(l.entries) - 1, cost})
				if e := l.over(now, highest.Burst, highest.Count, highest.Period); e != nil {
					t.Fatalf("history %d, step %d: %s has more than %s since %v, at %v", h, step, who, highest, e.at, now)
				}
			}
		}
	}
	if passed < histories*steps/10 || denied < histories*steps/20 {
		t.Errorf("%d passed, %d denied: want many of both", passed, denied)
	}
}

// What is held passes at its turn, and then too no more passes than the limit says.
func TestNeverMoreThanTheLimitAfterDelays(t *testing.T) {
	t.Logf("seed %d", seed)
	for h := range uint64(60) {
		from := rand.New(rand.NewPCG(seed+1, h))
		l := headgate.Limit{Count: 1 + from.Int64N(30), Period: time.Second, Burst: 5 + from.Int64N(10)}
		if from.IntN(2) == 0 {
			l.Algorithm = headgate.GCRA
		}
		wait := time.Second + time.Duration(from.Int64N(int64(3*time.Second))).Truncate(time.Microsecond)
		b := newBench(t, rules.Rule{
			ID: "a", Key: by(user), Limits: []rules.Limit{{Limit: l}}, OnLimit: delayed(wait), Cost: rules.Cost{Header: "X-Cost", Max: 5},
		})
		var passes ledger // in the order of their turns, which is that in which they came
		var now time.Duration
		held := 0
		for range 300 {
			pause := time.Duration(from.Int64N(int64(300 * time.Millisecond))).Truncate(time.Microsecond)
			b.Advance(pause)
			now += pause
			cost := 1 + from.Int64N(5)
			request := rules.Attributes{user: "alice", header("x-cost"): strconv.FormatInt(cost, 10)}
			v := b.ask(request)
			if !v.Action.Passes() {
				continue
			}
			if v.Delay > wait {
				t.Fatalf("history %d: held for %v, want at most %v", h, v.Delay, wait)
			}
			if v.Delay > 0 {
				held++
			}
			turn := now + v.Delay
			if n := len(passes.entries); n > 0 && turn < passes.entries[n-1].at {
				t.Fatalf("history %d: turn at %v, that of an earlier one at %v", h, turn, passes.entries[n-1].at)
			}
			passes.entries = append(passes.entries, entry{turn, cost})
			// A turn is rounded up to the microsecond, so that two of them may be closer by one.
			if e := passes.over(turn+time.Microsecond, l.Burst, l.Count, l.Period); e != nil {
				t.Fatalf("history %d: more than %s since %v, at %v", h, l, e.at, turn)
			}
		}
		if held == 0 {
			t.Errorf("history %d: nobody was held", h)
		}
	}
}

// After all have been cancelled, everything is as it was.
func TestCancelsLeaveNoTrace(t *testing.T) {
	t.Logf("seed %d", seed)
	algorithms := []string{"", " gcra", " fixed-window", " sliding-window", " sliding-log", " sliding-buckets"}
	for h := range uint64(60) {
		from := rand.New(rand.NewPCG(seed+2, h))
		var list []rules.Rule
		for i := range 1 + from.IntN(4) {
			r := rules.Rule{ID: fmt.Sprint("r", i), Cost: rules.Cost{Units: 1 + from.Int64N(3)}}
			r.Key = [][]headgate.Attribute{nil, by(user), by(ip), by(user, ip), by(tenant)}[from.IntN(5)]
			for range 1 + from.IntN(3) {
				r.Limits = append(r.Limits, limits(fmt.Sprint(5+from.IntN(20), "/h", algorithms[from.IntN(len(algorithms))]))...)
			}
			switch from.IntN(3) {
			case 0:
				r.Limits = append(r.Limits, limits(fmt.Sprint(3+from.IntN(10), " concurrent ttl 1d"))...)
			case 1:
				r.Limits, r.OnLimit = limits(fmt.Sprint(5+from.IntN(20), "/h")), delayed(5*time.Minute)
				r.Limits[0].Period = time.Minute
			}
			list = append(list, r)
		}
		b := newBench(t, list...)
		requests := []rules.Attributes{
			{user: "alice", ip: "192.0.2.1", tenant: "acme"}, {user: "bob", ip: "192.0.2.1"}, {ip: "192.0.2.2", tenant: "acme"},
		}
		trace := func() string {
			text := ""
			for _, r := range requests {
				text += fmt.Sprint(remaining(t, b.Engine, r), " ")
			}
			return text
		}
		before := trace()
		var open []*engine.Verdict
		for range 40 {
			if v := b.ask(requests[from.IntN(len(requests))]); v.Action.Passes() {
				open = append(open, v)
			}
		}
		if trace() == before {
			t.Errorf("history %d: nothing was taken", h)
		}
		from.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for _, v := range open {
			cancel(t, v)
		}
		if after := trace(); after != before || b.Waiting() != 0 {
			t.Fatalf("history %d: got %s, want %s; %d wait", h, after, before, b.Waiting())
		}
	}
}

// A crowd with everything at once: rules that change, clients that come and go, requests that wait, hang up, fail and
// settle. In the end every place and every slot is free, and never were more in flight than may be.
func TestCrowdLeavesNothingBehind(t *testing.T) {
	store := newStore(t, memstore.Options{})
	const most = 7
	set := func(n int) *match.Set {
		return compile(t, []rules.Rule{
			{ID: "places", Limits: limits(fmt.Sprint(most, " concurrent ttl 1h"))},
			{ID: "own", Key: by(user), Limits: limits(fmt.Sprint(100+n%3, "/s burst 20")), OnLimit: delayed(20 * time.Millisecond), CountRejected: n%2 == 0},
			{ID: "tokens", Key: by(user), Limits: limits("100000/s"), Cost: rules.Cost{ResponseHeader: "X-Used", Estimate: 3}},
			{ID: "watched", Key: by(ip), Limits: limits("10/s", "3 concurrent"), OnLimit: inShadow},
			{ID: "punished", Key: by(user), Limits: limits("100000/s burst 5"), Penalty: &rules.Penalty{
				After: rules.Denials{Count: 2, Within: time.Second}, Limits: limits("100000/s burst 1"), For: 10 * time.Millisecond,
			}},
		})
	}
	e := newEngine(t, engine.Config{Store: store, Rules: set(0), MaxWaiting: 5, Observe: func(v *engine.Verdict) { v.Outcomes() }})
	var inFlight, served atomic.Int64
	var all sync.WaitGroup
	stop := make(chan struct{})
	for n := range 16 {
		all.Go(func() {
			from := rand.New(rand.NewPCG(seed, uint64(n)))
			var v engine.Verdict
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, end := context.WithTimeout(context.Background(), time.Duration(from.IntN(30))*time.Millisecond)
				err := e.Decide(ctx, rules.Attributes{user: fmt.Sprint("user", from.IntN(5)), ip: "192.0.2.1"}, &v)
				if err == nil && v.Action.Passes() {
					err = v.Wait(ctx)
					if err == nil {
						if got := inFlight.Add(1); got > most {
							t.Errorf("%d in flight", got)
						}
						served.Add(1)
						inFlight.Add(-1)
					}
					if from.IntN(3) == 0 {
						err = v.Cancel(ctx)
					} else {
						err = v.Settle(ctx, func(string) string { return strconv.Itoa(from.IntN(6)) })
					}
					if err != nil {
						t.Error(err)
					}
				}
				end()
			}
		})
	}
	deadline := time.Now().Add(time.Minute)
	for i := 0; i < 100 || served.Load() < 200 && time.Now().Before(deadline); i++ {
		if err := e.SetRules(set(i)); err != nil {
			t.Error(err)
		}
		id := fmt.Sprint("user", i%5)
		if err := e.AddClient(rules.Client{ID: id}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		if err := e.RemoveClient(context.Background(), id); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	all.Wait()
	left := remaining(t, e, rules.Attributes{user: "user1", ip: "192.0.2.1"})
	if left["places:1"] != most || left["watched:2"] != 3 || e.Waiting() != 0 || e.Clients() != 0 {
		t.Errorf("got %v, %d wait, %d clients, want all places free", left, e.Waiting(), e.Clients())
	}
	if served.Load() < 200 {
		t.Errorf("%d served: that proves little", served.Load())
	}
}
