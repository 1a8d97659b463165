package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// The first decision after Open is one call of a known script, like later ones.
func TestFirstDecisionIsOneCall(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	server.ResetStats()
	if _, err := store.Take(t.Context(), headgate.Check{Key: "alice", Limit: headgate.PerHour(3), Cost: 1}); err != nil {
		t.Fatal(err)
	}
	stats := server.CommandStats()
	if stats["evalsha"] != 1 || stats["eval"] != 0 {
		t.Errorf("the first decision took %d EVALSHA and %d EVAL, want 1 and 0", stats["evalsha"], stats["eval"])
	}
}

// A server that has lost its scripts gets each again with the first decision that needs it, which is then decided.
func TestDecisionsAfterAScriptFlushSendTheScriptAgain(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	store, err := redisstore.Open(t.Context(), server.URL(), redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	server.FlushScripts()
	server.ResetStats()
	check := headgate.Check{Key: "alice", Limit: headgate.PerHour(3), Cost: 1}
	for i := range 4 {
		d, err := store.Take(t.Context(), check)
		if err != nil || d.Allowed != (i < 3) {
			t.Errorf("decision %d: got %+v, %v", i, d, err)
		}
	}
	stats := server.CommandStats()
	if stats["evalsha"] != 4 || stats["eval"] != 1 {
		t.Errorf("four decisions took %d EVALSHA and %d EVAL, want 4 and 1", stats["evalsha"], stats["eval"])
	}
}
