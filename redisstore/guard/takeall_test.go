package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// show writes a decision as a mark: + allowed, - denied, d degraded, n not asked, followed by what remains.
func show(ds []headgate.Decision) string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case d.Limit == 0:
			b.WriteByte('n')
			continue
		case d.Allowed:
			b.WriteByte('+')
		default:
			b.WriteByte('-')
		}
		if d.Degraded {
			b.WriteByte('d')
		}
		fmt.Fprint(&b, d.Remaining)
	}
	return b.String()
}

func TestTakeAllAcrossShards(t *testing.T) {
	const limit = "10/h"
	open := func(key string) headgate.Check { return check(key, limit) }
	closed := func(key string) headgate.Check { return under(check(key, limit), headgate.Closed) }
	local := func(key string) headgate.Check { return under(check(key, limit), headgate.Local) }
	full := func(c headgate.Check) headgate.Check { return costing(c, 10) }
	down, fails, hangs, exhausted := "down", "fails", "hangs", "exhausted"
	for _, tt := range []struct {
		name   string
		is     map[string]string // what is the matter with a shard
		checks []headgate.Check
		want   string
		asked  string
		left   map[string]int64 // in the store afterwards
		local  map[string]int64 // in the local limiter afterwards
	}{
		{
			name: "one shard, one call, in order", checks: []headgate.Check{open("a/2"), open("a/1"), open("a/3")},
			want: "+9 +9 +9", asked: "a/2+a/1+a/3", left: map[string]int64{"a/1": 9, "a/2": 9, "a/3": 9},
		},
		{
			name: "shards in the order in which they occur", checks: []headgate.Check{open("b/1"), open("a/1"), open("b/2"), open("c/1")},
			want: "+9 +9 +9 +9", asked: "b/1+b/2 a/1 c/1", left: map[string]int64{"a/1": 9, "b/2": 9, "c/1": 9},
		},
		{
			name: "a later shard denies", is: map[string]string{"b/1": exhausted},
			checks: []headgate.Check{open("a/1"), open("b/1"), open("c/1"), open("a/2")},
			want:   "+10 -0 n +10", asked: "a/1+a/2 b/1 give a/1 give a/2", left: map[string]int64{"a/1": 10, "a/2": 10, "b/1": 0, "c/1": 10},
		},
		{
			name: "the first shard denies", is: map[string]string{"a/2": exhausted},
			checks: []headgate.Check{open("a/1"), open("a/2"), open("b/1")},
			want:   "+10 -0 n", asked: "a/1+a/2", left: map[string]int64{"a/1": 10, "b/1": 10},
		},
		{
			name: "closed beats open, nothing is asked", is: map[string]string{"b": down},
			checks: []headgate.Check{open("a/1"), open("b/1"), closed("b/2")},
			want:   "n n -d0", asked: "", left: map[string]int64{"a/1": 10},
		},
		{
			name: "closed on a shard that works is asked", is: map[string]string{"b": down},
			checks: []headgate.Check{closed("a/1"), open("b/1")},
			want:   "+9 +d9", asked: "a/1", left: map[string]int64{"a/1": 9},
		},
		{
			name: "local of a shard that is down", is: map[string]string{"b": down},
			checks: []headgate.Check{open("a/1"), local("b/1"), open("b/2"), local("b/3")},
			want:   "+9 +d9 +d9 +d9", asked: "a/1", left: map[string]int64{"a/1": 9}, local: map[string]int64{"b/1": 9, "b/3": 9, "b/2": 10},
		},
		{
			name: "local denies, nothing is asked", is: map[string]string{"b": down, "local b/3": exhausted},
			checks: []headgate.Check{open("a/1"), local("b/1"), open("b/2"), local("b/3")},
			want:   "n +d10 n -d0", asked: "", left: map[string]int64{"a/1": 10}, local: map[string]int64{"b/1": 10},
		},
		{
			name: "local is given back if the store denies", is: map[string]string{"b": down, "a/1": exhausted},
			checks: []headgate.Check{open("a/1"), local("b/1")},
			want:   "-0 +d10", asked: "a/1", local: map[string]int64{"b/1": 10},
		},
		{
			name: "a cost that never passes on a shard that is down", is: map[string]string{"b": down},
			checks: []headgate.Check{open("a/1"), costing(open("b/1"), 11)},
			want:   "n -d0", asked: "", left: map[string]int64{"a/1": 10},
		},
		{
			name: "a shard fails on the way, the rest stays exact", is: map[string]string{"b": fails},
			checks: []headgate.Check{open("a/1"), open("b/1"), local("b/2"), open("c/1")},
			want:   "+9 +d9 +d9 +9", asked: "a/1 b/1+b/2 c/1", left: map[string]int64{"a/1": 9, "c/1": 9}, local: map[string]int64{"b/2": 9},
		},
		{
			name: "a shard hangs on the way", is: map[string]string{"b": hangs},
			checks: []headgate.Check{open("a/1"), open("b/1"), open("c/1")},
			want:   "+9 +d9 +9", asked: "a/1 b/1 c/1", left: map[string]int64{"a/1": 9, "c/1": 9},
		},
		{
			name: "closed on a shard that fails on the way", is: map[string]string{"b": fails},
			checks: []headgate.Check{open("a/1"), closed("b/1"), open("b/2"), open("c/1")},
			want:   "+10 -d0 n n", asked: "a/1 b/1+b/2 give a/1", left: map[string]int64{"a/1": 10, "c/1": 10},
		},
		{
			name: "local taken for one that failed is given back", is: map[string]string{"b": fails, "c/1": exhausted},
			checks: []headgate.Check{open("a/1"), local("b/1"), open("c/1")},
			want:   "+10 +d10 -0", asked: "a/1 b/1 c/1 give a/1", left: map[string]int64{"a/1": 10}, local: map[string]int64{"b/1": 10},
		},
		{
			name: "all shards down", is: map[string]string{"a": down, "b": down},
			checks: []headgate.Check{full(open("a/1")), local("b/1")}, want: "+d0 +d9", asked: "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f, localStore := newFake(t, nil), newFake(t, nil)
				g := newGuard(t, shardedFake{f}, Options{Local: localStore})
				for what, is := range tt.is {
					switch {
					case is == down:
						goDown(t, g, f, what)
					case is == fails:
						f.breaks(what, fault{err: errRefused})
					case is == hangs:
						f.breaks(what, fault{hangs: true})
					case strings.HasPrefix(what, "local "):
						take(t, localStore, full(check(what[len("local "):], limit)))
					default:
						take(t, f, full(check(what, limit)))
					}
				}
				synctest.Wait()
				f.log()
				ds := takeAll(t, g, tt.checks...)
				if got := show(ds); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				synctest.Wait()
				if got := f.log(); got != tt.asked && !sameSet(got, tt.asked) {
					t.Errorf("asked %q, want %q", got, tt.asked)
				}
				allowed := headgate.Allowed(ds)
				for i, d := range ds {
					if (d.Receipt.Units > 0) != (allowed && tt.checks[i].Cost > 0) {
						t.Errorf("check %d: got receipt %+v, all allowed %v", i, d.Receipt, allowed)
					}
				}
				for key, want := range tt.left {
					if got := take(t, f.store, costing(check(key, limit), 0)).Remaining; got != want {
						t.Errorf("%s: %d remaining in the store, want %d", key, got, want)
					}
				}
				for key, want := range tt.local {
					if got := take(t, localStore.store, costing(check(key, limit), 0)).Remaining; got != want {
						t.Errorf("%s: %d remaining locally, want %d", key, got, want)
					}
				}
			})
		})
	}
}

// sameSet compares logs but for the order of what is given back, which several do at once.
func sameSet(got, want string) bool {
	i := strings.Index(want, " give")
	if i < 0 || len(got) != len(want) || got[:i] != want[:i] {
		return false
	}
	for _, give := range strings.Split(want[i+1:], " give ") {
		if !strings.Contains(got, give) {
			return false
		}
	}
	return true
}

func TestTakeAllThatFailsTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{})
		f.breaks("b", fault{err: headgate.ErrUnsupported})
		checks := []headgate.Check{check("a/1", "10/h"), check("b/1", "10/h")}
		dst := []headgate.Decision{{Limit: 42}}
		ds, err := g.TakeAll(context.Background(), checks, dst)
		if !errors.Is(err, headgate.ErrUnsupported) || len(ds) != 1 || ds[0].Limit != 42 {
			t.Errorf("got %+v, %v", ds, err)
		}
		f.breaks("b", fault{hangs: true})
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := g.TakeAll(ctx, checks, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the caller's deadline", err)
		}
		synctest.Wait()
		if got := take(t, f.store, costing(checks[0], 0)).Remaining; got != 10 {
			t.Errorf("%d remaining, want all 10 given back", got)
		}
		wantStats(t, g, "refunds", g.Stats().Refunds, 2)
	})
}

func TestFailedRefundsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, shardedFake{f}, Options{DenyCache: -1, Deadline: time.Second})
		take(t, f, costing(check("b/1", "10/h"), 10))
		const requests = 1200
		f.breaks("a", fault{slow: 100 * time.Millisecond})
		done := make(chan struct{})
		for i := range requests {
			go func() {
				takeAll(t, g, check(fmt.Sprint("a/", i), "10/h"), check("b/1", "10/h"))
				done <- struct{}{}
			}()
		}
		for range requests {
			<-done
		}
		// No more are queued than there is room for. Some are made while others are still decided.
		if got, most := g.Stats().RefundsDropped, int64(requests-maxRefunds-refunders); got <= 0 || got > most {
			t.Errorf("%d refunds dropped, want 1 to %d", got, most)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if s := g.Stats(); s.Refunds+s.RefundsDropped != requests {
			t.Errorf("%d refunds and %d dropped, want %d in all", s.Refunds, s.RefundsDropped, requests)
		}
	})
}
