package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// eachStore is a store that decides several checks in one call, and counts such calls.
type eachStore struct {
	*memstore.Store
	calls, checks int
	fail          error
}

func (s *eachStore) TakeEach(ctx context.Context, checks []*headgate.Check, dst []*headgate.Decision, errs []error) {
	s.calls++
	s.checks += len(checks)
	for i, c := range checks {
		if errs[i] = s.fail; s.fail == nil {
			*dst[i], errs[i] = s.Take(ctx, *c)
		}
	}
}

var _ engine.EachTaker = (*eachStore)(nil)

// Whatever rules say, and in whatever order requests come, a batch says of each what it would have been told alone.
func TestABatchAnswersAsIfRequestsCameOneByOne(t *testing.T) {
	for name, list := range map[string][]rules.Rule{
		"one limit": {{ID: "a", Key: by(user), Limits: limits("3/m")}},
		"several kinds": {
			{ID: "a", When: is(path, "/a"), Key: by(user), Limits: limits("3/m")},
			{ID: "b", When: is(path, "/b", "/c"), Key: by(user), Limits: limits("2/m", "3/h fixed-window")},
			{ID: "c", When: is(path, "/c"), Limits: limits("9/m")},
		},
		"shadow":         {{ID: "a", Key: by(user), Limits: limits("3/m"), OnLimit: inShadow}},
		"delay":          {{ID: "a", Key: by(user), Limits: limits("60/m burst 2"), OnLimit: delayed(seconds(3))}},
		"penalty":        {{ID: "a", Key: by(user), Limits: limits("2/m"), Penalty: strict()}},
		"count_rejected": {{ID: "a", Key: by(user), Limits: limits("2/m fixed-window"), CountRejected: true}},
		"concurrency":    {{ID: "a", Key: by(user), Limits: limits("2 concurrent")}},
		"blocked":        {{ID: "a", When: is(path, "/a"), Block: true}, {ID: "b", Limits: limits("9/m")}},
		"drop":           {{ID: "a", Key: by(user), Limits: limits("3/m"), OnLimit: rules.OnLimit{Action: rules.Drop}}},
		"none":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, together := range []bool{true, false} {
				compareBatch(t, list, together)
			}
		})
	}
}

// A told is all that a caller or an observer hears of a request.
func told(v *engine.Verdict, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %d degraded=%t retry=%s delay=%s %+v settles=%t;", said(v), v.Status, v.Degraded, v.RetryAfter, v.Delay, blind(v.Decision), v.NeedsSettle())
	for _, o := range v.Outcomes() {
		text += fmt.Sprintf(" %s asked=%t denied=%t limits=%d", o.Rule.ID, o.Checked, o.Denied, len(o.Limits))
	}
	return text
}

// blind leaves out what is made by chance.
func blind(d headgate.Decision) headgate.Decision {
	d.Receipt.Lease = 0
	return d
}

func compareBatch(t *testing.T, list []rules.Rule, together bool) {
	t.Helper()
	clock := limittest.NewClock()
	var observed [2][]string
	var engines [2]*engine.Engine
	counting := &eachStore{Store: newStore(t, memstore.Options{Now: clock.Now})}
	for i := range engines {
		c := engine.Config{
			Store: newStore(t, memstore.Options{Now: clock.Now}), Rules: compile(t, list),
			Observe: func(v *engine.Verdict) { observed[i] = append(observed[i], told(v, nil)) },
		}
		if i == 1 && together {
			c.Store = counting
		} else if i == 1 {
			c.Store = struct{ headgate.Limiter }{c.Store} // one that does not
		}
		engines[i] = newEngine(t, c)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var batch engine.Batch
	for range 40 {
		var want []string
		for range 1 + random.IntN(engine.BatchSize) {
			s := rules.Attributes{user: fmt.Sprint("u", random.IntN(3)), path: "/" + string(rune('a'+random.IntN(4)))}
			options := engine.DecideOptions{NoWait: true}
			switch random.IntN(8) {
			case 0:
				options.Rule = "a"
			case 1:
				options.Rule = "gone"
			case 2:
				options.HasCost, options.Cost = true, int64(random.IntN(6)-1)
			}
			var v engine.Verdict
			err := engines[0].DecideWith(t.Context(), s, options, &v)
			want = append(want, told(&v, err))
			batch.Add(t.Context(), engines[1], s, &options)
		}
		batch.Decide(t.Context())
		if batch.Len() != len(want) {
			t.Fatalf("got %d requests, want %d", batch.Len(), len(want))
		}
		for i := range want {
			if got := told(batch.Verdict(i)); got != want[i] {
				t.Fatalf("together=%t: got\n%s\nwant\n%s", together, got, want[i])
			}
		}
		batch.Clear()
		clock.Advance(seconds(random.IntN(20)))
	}
	if got, want := fmt.Sprint(observed[1]), fmt.Sprint(observed[0]); got != want {
		t.Errorf("together=%t: got observed\n%s\nwant\n%s", together, got, want)
	}
}

func TestRequestsOfABatchAreAskedTogether(t *testing.T) {
	t.Parallel()
	store := &eachStore{Store: newStore(t, memstore.Options{})}
	e := newEngine(t, engine.Config{Store: store, Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("3/m")}})})
	var batch engine.Batch
	for range engine.BatchSize {
		batch.Add(t.Context(), e, alice(), &engine.DecideOptions{})
	}
	batch.Decide(t.Context())
	if store.calls != 1 || store.checks != engine.BatchSize {
		t.Errorf("got %d calls with %d checks, want 1 with %d", store.calls, store.checks, engine.BatchSize)
	}
}

func TestABatchOnAStoreThatFailsGoesByThePolicies(t *testing.T) {
	t.Parallel()
	store := &eachStore{Store: newStore(t, memstore.Options{}), fail: errBroken}
	var reported []error
	e := newEngine(t, engine.Config{
		Store: store, OnError: func(err error) { reported = append(reported, err) },
		Rules: compile(t, []rules.Rule{
			{ID: "open", When: is(path, "/open"), Key: by(user), Limits: limits("3/m")},
			{ID: "closed", When: is(path, "/closed"), Key: by(user), Limits: limits("3/m"), OnFailure: headgate.Closed},
		}),
	})
	var batch engine.Batch
	for _, p := range []string{"/open", "/closed"} {
		batch.Add(t.Context(), e, rules.Attributes{user: "u", path: p}, &engine.DecideOptions{})
	}
	batch.Decide(t.Context())
	for i, want := range []string{"allow by open", "reject (" + engine.StoreFailed.String() + ") by closed"} {
		v, err := batch.Verdict(i)
		if err != nil || said(v) != want || !v.Degraded {
			t.Errorf("got %s, degraded %t, %v; want %s, degraded", said(v), v.Degraded, err, want)
		}
	}
	if len(reported) != 2 || !errors.Is(reported[0], errBroken) {
		t.Errorf("got told of %v, want of both", reported)
	}
	batch.Clear()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	batch.Add(ended, e, rules.Attributes{user: "u", path: "/open"}, &engine.DecideOptions{})
	batch.Decide(ended)
	if _, err := batch.Verdict(0); !errors.Is(err, context.Canceled) {
		t.Errorf("ctx has ended: got %v, want it", err)
	}
}
