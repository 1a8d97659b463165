package guard

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// Keys with the same hash wait for each other, but do not share responses.
func TestResponseIsSharedOnlyForTheSameKeyAndLimit(t *testing.T) {
	g := newGuard(t, newFake(t, nil), Options{})
	alice := check("alice", "1/h")
	d := headgate.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
	const hash = 42
	now := g.micros()
	denial := admission.NewDenyCache(1e6, nil).Learn(hash, &alice, admission.Response{CalledAt: now, RespondedAt: now, Decision: &d})
	for _, tt := range []struct {
		name   string
		check  headgate.Check
		shared bool
		want   bool
	}{
		{"alice", alice, true, true},
		{"alice, who came too late", alice, false, false},
		{"bob", check("bob", "1/h"), true, false},
		{"alice under another limit", check("alice", "2/h"), true, false},
	} {
		reason := admission.Wake{Denial: denial, Applies: tt.shared}
		pending := []pendingCheck{{check: &tt.check, hash: hash}}
		if _, _, got := g.learnedDenial(pending, 0, reason); got != tt.want {
			t.Errorf("%s: denied %v, want %v", tt.name, got, tt.want)
		}
	}
}
