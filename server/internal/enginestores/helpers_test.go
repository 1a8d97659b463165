package enginestores

import (
	"context"
	"io"
	"strings"
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
	tenant = headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-tenant"}
)

// A bench is an engine whose store has the clock of the test.
type bench struct {
	*engine.Engine
	*limittest.Clock
	t testing.TB
}

// on decides a request with options.
func (b *bench) on(s rules.Subject, options engine.DecideOptions) *engine.Verdict {
	b.t.Helper()
	var v engine.Verdict
	if err := b.DecideWith(context.Background(), s, options, &v); err != nil {
		b.t.Fatalf("%v on %+v: %v", s, options, err)
	}
	return &v
}

func costs(n int64) engine.DecideOptions { return engine.DecideOptions{Cost: n, HasCost: true} }

var inShadow = rules.OnLimit{Action: rules.Shadow}

func delayed(wait time.Duration) rules.OnLimit {
	return rules.OnLimit{Action: rules.Delay, MaxWait: wait}
}

func release(t testing.TB, e *engine.Engine, lease string) {
	t.Helper()
	if err := e.Release(context.Background(), lease); err != nil {
		t.Errorf("release %s: %v", lease, err)
	}
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
		c.OnError = func(err error) { t.Errorf("unexpected error: %v", err) }
	}
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decide(t testing.TB, e *engine.Engine, s rules.Subject) *engine.Verdict {
	t.Helper()
	var v engine.Verdict
	if err := e.Decide(context.Background(), s, &v); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	return &v
}

// said returns the action, the reason and the rule of a verdict.
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

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
