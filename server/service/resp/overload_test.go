package resp_test

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// An overloadedStore has too much to do for any decision.
type overloadedStore struct{ *slowStore }

func (overloadedStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrOverloaded
}

func (overloadedStore) Peek(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrOverloaded
}

func (overloadedStore) TakeAll(_ context.Context, _ []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return dst, headgate.ErrOverloaded
}

// Too many commands at once get an error. Neither a rule's on_failure nor the server's decides them.
func TestOverloadIsAnError(t *testing.T) {
	store := overloadedStore{&slowStore{Store: newStore(t, memstore.Options{})}}
	c := dial(t, serve(t, onRedis(t, store)).address)
	const want = "BUSY overloaded, retry after 1 second"
	c.wants(want, "CL.THROTTLE", "key", "1", "1", "60")
	c.wants(want, "HG.TAKE", "per-user", "alice")
	c.wants(want, "HG.TAKE", "careful", "alice")
	c.wants(want, "HG.PEEK", "per-user", "alice")
}
