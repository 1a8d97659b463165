package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// phaseLog records the phases of decisions.
type phaseLog struct{ lines []string }

func (l *phaseLog) trace(ctx context.Context, p engine.Phase) (context.Context, func(*engine.Verdict, error)) {
	l.lines = append(l.lines, "begin "+p.String())
	return ctx, func(v *engine.Verdict, err error) {
		line := fmt.Sprintf("end %s", p)
		switch {
		case err != nil:
			line += " error"
		case v == nil:
			line += " of several"
		case p == engine.Matching:
			line += fmt.Sprintf(" rules=%d", len(v.Matched()))
		default:
			line += " " + v.Action.String()
		}
		l.lines = append(l.lines, line)
	}
}

func TestTraceSeesPhasesInOrder(t *testing.T) {
	var log phaseLog
	b := newBenchWith(t, engine.Config{Trace: log.trace},
		rules.Rule{ID: "simple", Key: by(user), Limits: limits("1/h"), When: is(path, "/simple")},
		rules.Rule{ID: "slow", Key: by(user), Limits: limits("1/h"), When: is(path, "/slow"), OnLimit: rules.OnLimit{Action: rules.Drop}},
	)
	for _, test := range []struct {
		path string
		want []string
	}{
		{"/none", []string{"begin match", "end match rules=0"}},
		{"/simple", []string{"begin match", "end match rules=1", "begin take", "end take allow"}},
		{"/simple", []string{"begin match", "end match rules=1", "begin take", "end take reject"}},
		{"/slow", []string{"begin match", "end match rules=1", "begin take", "end take allow"}},
		{"/slow", []string{"begin match", "end match rules=1", "begin take", "end take drop"}},
	} {
		log.lines = nil
		b.ask(rules.Attributes{user: "ann", path: test.path})
		if !slices.Equal(log.lines, test.want) {
			t.Errorf("%s: got %q, want %q", test.path, log.lines, test.want)
		}
	}
	log.lines = nil
	var v engine.Verdict
	unknown := engine.DecideOptions{Rule: "unknown"}
	if err := b.DecideWith(t.Context(), rules.Attributes{}, unknown, &v); !errors.Is(err, engine.ErrNoRule) {
		t.Fatalf("got %v, want ErrNoRule", err)
	}
	if want := []string{"begin match", "end match error"}; !slices.Equal(log.lines, want) {
		t.Errorf("unknown rule: got %q, want %q", log.lines, want)
	}
}

func TestTraceSeesOneTakeOfBatch(t *testing.T) {
	var log phaseLog
	b := newBenchWith(t, engine.Config{Trace: log.trace}, rules.Rule{ID: "a", Key: by(user), Limits: limits("1/h")})
	var batch engine.Batch
	for _, name := range []string{"ann", "bob"} {
		batch.Add(t.Context(), b.Engine, rules.Attributes{user: name}, &engine.DecideOptions{})
	}
	batch.Decide(t.Context())
	if want := []string{"begin take", "end take of several"}; !slices.Equal(log.lines, want) {
		t.Errorf("got %q, want %q", log.lines, want)
	}
}
