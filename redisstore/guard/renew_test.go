package guard

import (
	"errors"
	"testing"

	"github.com/headgate/headgate"
)

// A slot is renewed where it was taken: in the store, in the local limiter, or nowhere.
func TestRenewWhereTheSlotWasTaken(t *testing.T) {
	f := newFake(t, nil)
	g := newGuard(t, shardedFake{f}, Options{})
	slot := check("a/1", "1 concurrent ttl 1h")
	d := take(t, g, slot)
	if held, err := g.Renew(t.Context(), slot, d.Receipt); !held || err != nil {
		t.Errorf("in the store: got %v, %v, want it to be held", held, err)
	}
	goDown(t, g, f, "a")
	if held, err := g.Renew(t.Context(), slot, d.Receipt); held || !errors.Is(err, ErrUnavailable) {
		t.Errorf("in a store that is down: got %v, %v, want %v", held, err, ErrUnavailable)
	}
	local := under(check("a/2", "1 concurrent ttl 1h"), headgate.Local)
	d = take(t, g, local)
	if held, err := g.Renew(t.Context(), local, d.Receipt); !d.Degraded || !held || err != nil {
		t.Errorf("in the local limiter: got %v, %v, want it to be held", held, err)
	}
	if again := take(t, g, local); again.Allowed {
		t.Error("a second slot passes in the local limiter")
	}
	open := check("a/3", "1 concurrent ttl 1h")
	d = take(t, g, open)
	if held, err := g.Renew(t.Context(), open, d.Receipt); !d.Degraded || !held || err != nil {
		t.Errorf("that a policy let pass: got %v, %v, want it to be held", held, err)
	}
	rate := check("b/1", "10/s")
	if _, err := g.Renew(t.Context(), rate, take(t, g, rate).Receipt); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("of another algorithm: got %v, want %v", err, headgate.ErrUnsupported)
	}
}
