package redisstore_test

import (
	"testing"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
)

// A primary that is unreachable at the start does not keep the scripts from the others.
func TestScriptsAreLoadedBesideAServerThatIsDown(t *testing.T) {
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	for _, down := range cluster.Servers() {
		for _, server := range cluster.Servers() {
			server.FlushScripts()
			server.ResetStats()
		}
		down.Pause()
		store, err := redisstore.Open(t.Context(), cluster.URL()+"?dial_timeout=200ms", redisstore.Options{
			StartUnreachable: true, Secret: []byte("a secret of 32 bytes for all tests"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		down.Resume()
		var loads []int64
		for _, server := range cluster.Servers() {
			if server != down {
				loads = append(loads, server.CommandStats()["script|load"])
			}
		}
		if loads[0] == 0 || loads[0] != loads[1] {
			t.Errorf("while %s is down: got %v scripts loaded into the others, want all", down.Addr(), loads)
		}
	}
}
