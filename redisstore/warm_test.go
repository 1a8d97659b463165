package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// The first decision after Open costs what later ones do: one call, of a script that the server knows.
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
