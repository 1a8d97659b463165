package engine_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// A store that has too much to do has not failed: no policy lets the request pass.
func TestOverloadedStoreIsNotLeftToPolicies(t *testing.T) {
	for _, policy := range []headgate.Policy{headgate.Open, headgate.Closed, headgate.Local} {
		for _, action := range []rules.Action{rules.Reject, rules.Drop} {
			r := rules.Rule{ID: "a", Key: by(user), Limits: limits("3/h"), OnFailure: policy}
			r.OnLimit.Action = action
			f := newFailing(t, r)
			f.exact.breaks(headgate.ErrOverloaded)
			v := f.ask()
			if said(v) != "reject (overloaded) by a" || v.Status != 503 || v.RetryAfter != time.Second || v.Degraded {
				t.Errorf("%v, %v: got %s, status %d, retry after %v, degraded %v", policy, action, said(v), v.Status, v.RetryAfter, v.Degraded)
			}
			if len(f.errs) > 0 {
				t.Errorf("%v: got errors %v, want none", policy, f.errs)
			}
		}
	}
}

func TestOverloadedShadowRuleLetsTheRequestPass(t *testing.T) {
	r := rules.Rule{ID: "a", Key: by(user), Limits: limits("3/h")}
	r.OnLimit.Action = rules.Shadow
	f := newFailing(t, r)
	f.exact.breaks(headgate.ErrOverloaded)
	if v := f.ask(); v.Action != engine.Allow {
		t.Errorf("got %s, want it to pass", said(v))
	}
}
