package engine_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

var (
	ip     = headgate.Attribute{Kind: headgate.AttrIP}
	user   = headgate.Attribute{Kind: headgate.AttrUser}
	path   = headgate.Attribute{Kind: headgate.AttrPath}
	host   = headgate.Attribute{Kind: headgate.AttrHost}
	tenant = header("x-tenant")
)

func header(name string) headgate.Attribute {
	return headgate.Attribute{Kind: headgate.AttrHeader, Name: name}
}

func by(key ...headgate.Attribute) []headgate.Attribute { return key }

func is(a headgate.Attribute, values ...string) rules.Condition {
	return rules.Condition{Tests: []rules.Test{{Attribute: a, Values: values}}}
}

func limits(texts ...string) []rules.Limit {
	var list []rules.Limit
	for _, text := range texts {
		list = append(list, rules.Limit{Limit: headgate.MustParseLimit(text)})
	}
	return list
}

func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	s, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	return s
}

// closing closes c when the test has ended.
func closing(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func compile(t testing.TB, list []rules.Rule, clients ...rules.Client) *match.Set {
	t.Helper()
	set, err := match.Compile(list, clients...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newEngine(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	if c.OnError == nil {
		c.OnError = func(err error) { t.Errorf("an error nobody expects: %v", err) }
	}
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A bench is an engine on a store in memory whose time stands still.
type bench struct {
	*engine.Engine
	*limittest.Clock
	t     testing.TB
	store *memstore.Store
}

// newBench returns a bench with these rules in force.
func newBench(t testing.TB, list ...rules.Rule) *bench {
	t.Helper()
	return newBenchWith(t, engine.Config{}, list...)
}

func newBenchWith(t testing.TB, c engine.Config, list ...rules.Rule) *bench {
	t.Helper()
	b := &bench{Clock: limittest.NewClock(), t: t}
	b.store = newStore(t, memstore.Options{Now: b.Now})
	if c.Store == nil {
		c.Store = b.store
	}
	c.Rules = compile(t, list)
	b.Engine = newEngine(t, c)
	return b
}

// ask decides a request.
func (b *bench) ask(s rules.Subject) *engine.Verdict {
	b.t.Helper()
	return decide(b.t, b.Engine, s)
}

func decide(t testing.TB, e *engine.Engine, s rules.Subject) *engine.Verdict {
	t.Helper()
	var v engine.Verdict
	if err := e.Decide(context.Background(), s, &v); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	return &v
}

// passes asks until a request is denied, at most 1000 times, and returns how often it passed.
func (b *bench) passes(s rules.Subject) int {
	b.t.Helper()
	for n := range 1000 {
		if !b.ask(s).Action.Passes() {
			return n
		}
	}
	return 1000
}

// said is a verdict in words: what, why, by whom.
func said(v *engine.Verdict) string {
	words := []string{v.Action.String()}
	if v.Reason != engine.None {
		words = append(words, "("+v.Reason.String()+")")
	}
	if v.Rule != nil {
		words = append(words, "by", v.Rule.ID)
	}
	return strings.Join(words, " ")
}

func alice() rules.Attributes { return rules.Attributes{user: "alice", ip: "192.0.2.1", path: "/"} }

func settle(t testing.TB, v *engine.Verdict, response map[string]string) {
	t.Helper()
	if err := v.Settle(context.Background(), func(name string) string { return response[name] }); err != nil {
		t.Errorf("settle: %v", err)
	}
}

func cancel(t testing.TB, v *engine.Verdict) {
	t.Helper()
	if err := v.Cancel(context.Background()); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// A recorder is a limiter that remembers what it was asked, and fails as long as it is told to.
type recorder struct {
	headgate.Limiter
	name string
	log  *[]string // shared by several

	fail error
}

// recording is held by a recorder that writes.
var recording sync.Mutex

var errBroken = errors.New("broken")

func (r *recorder) note(what string, checks ...headgate.Check) error {
	recording.Lock()
	defer recording.Unlock()
	words := []string{r.name, what}
	for _, c := range checks {
		words = append(words, readable(c.Key))
	}
	*r.log = append(*r.log, strings.Join(words, " "))
	return r.fail
}

func (r *recorder) breaks(err error) {
	recording.Lock()
	defer recording.Unlock()
	r.fail = err
}

// readable returns the rule and the name of the limit in a key. Names are of one character here.
func readable(key string) string {
	rule := strings.Split(key, "/")[1]
	if i := strings.Index(key, "~~"); i >= 0 {
		return rule + ":" + key[i:]
	}
	return rule + ":" + key[len(key)-1:]
}

func (r *recorder) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := r.note("take", c); err != nil {
		return headgate.Decision{}, err
	}
	return r.Limiter.Take(ctx, c)
}

func (r *recorder) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := r.note("peek", c); err != nil {
		return headgate.Decision{}, err
	}
	return r.Limiter.Peek(ctx, c)
}

func (r *recorder) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := r.note("takeall", checks...); err != nil {
		return dst, err
	}
	return r.Limiter.TakeAll(ctx, slices.Clone(checks), dst)
}

func (r *recorder) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	if err := r.note("charge", c); err != nil {
		return headgate.Decision{}, err
	}
	return r.Limiter.Charge(ctx, c)
}

func (r *recorder) Renew(ctx context.Context, c headgate.Check, receipt headgate.Receipt) (bool, error) {
	if err := r.note("renew", c); err != nil {
		return false, err
	}
	return r.Limiter.Renew(ctx, c, receipt)
}

func (r *recorder) Give(ctx context.Context, c headgate.Check, receipt headgate.Receipt) error {
	if err := r.note("give", c); err != nil {
		return err
	}
	return r.Limiter.Give(ctx, c, receipt)
}

func (r *recorder) Reset(ctx context.Context, c headgate.Check) error {
	if err := r.note("reset", c); err != nil {
		return err
	}
	return r.Limiter.Reset(ctx, c)
}

// remaining returns what a limit of a rule still has for a request, without taking any of it.
func remaining(t testing.TB, e *engine.Engine, s rules.Subject) map[string]int64 {
	t.Helper()
	x, err := e.Explain(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int64{}
	for _, r := range x.Rules {
		for _, l := range r.Limits {
			left[r.Rule.ID+":"+l.Name] = l.Decision.Remaining
		}
	}
	return left
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= time.Microsecond }

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
