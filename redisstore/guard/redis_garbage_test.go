package guard_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

// Somebody else wrote where the counter of one client is. However often that client asks, the others are served.
func TestGarbageInOneKeyDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	store := openStore(t, server.URL(), redisstore.Options{})
	g := newGuard(t, store, guard.Options{Deadline: patient})
	limit := headgate.MustParseLimit("100/d")
	ill := headgate.Check{Key: "ill", Limit: limit, Cost: 1}
	mustTake(t, store, ill)
	reply, err := server.Do("KEYS", redisstore.DefaultPrefix+"{*")
	keys, _ := reply.([]any)
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v; want one", reply, err)
	}
	key := fmt.Sprint(keys[0])
	for what, write := range map[string][]string{
		"garbage":      {"SET", key, "some garbage that somebody wrote"},
		"another type": {"LPUSH", key, "x"},
	} {
		for _, args := range [][]string{{"DEL", key}, write} {
			if _, err := server.Do(args...); err != nil {
				t.Fatal(err)
			}
		}
		var e *redisstore.ServerError
		if _, err := store.Take(t.Context(), ill); !errors.As(err, &e) || e.Server != server.Addr() || e.Fix == "" || !e.Refused() {
			t.Errorf("%s: %v; want an error of this key that names the server and the cure", what, err)
		}
		const asked = 40
		for policy := range headgate.Local + 1 {
			ill.OnFailure = policy
			for i := range asked {
				if d := mustTake(t, g, ill); !d.Degraded || d.Allowed == (policy == headgate.Closed) {
					t.Fatalf("%s, %v: %+v, want it degraded and as the policy says", what, policy, d)
				}
				if i%20 == 0 {
					well := headgate.Check{Key: fmt.Sprint("well", what, policy, i), Limit: limit, Cost: 1}
					if d := mustTake(t, g, well); d.Degraded || !d.Allowed || d.Remaining != 99 {
						t.Fatalf("%s, %v: %+v for another client, want it exact", what, policy, d)
					}
				}
			}
		}
		if s := g.Shards()[0]; s.Open {
			t.Errorf("%s: the circuit is open: %v; want it closed, for the server answers", what, s.Err)
		}
	}
}
