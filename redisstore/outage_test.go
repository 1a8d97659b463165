package redisstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

// Outages are known without decisions: at the start, when a server dies, and no longer when it is
// back.
func TestUnreachableServersAreKnownWithoutCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Kill()
	s := open(t, server.URL(), Options{StartUnreachable: true, Logger: (&logbook.Book{}).Logger()})
	away := func() error {
		list := s.Outages()
		if len(list) != 1 || list[0].Shard != server.Addr() || list[0].Since.IsZero() || !errors.Is(list[0].Err, ErrUnreachable) {
			return fmt.Errorf("got %+v, want that %s is away", list, server.Addr())
		}
		return nil
	}
	there := func() error {
		if list := s.Outages(); len(list) > 0 {
			return fmt.Errorf("got %+v, want that nobody is away", list)
		}
		return nil
	}
	if err := away(); err != nil {
		t.Error(err)
	}
	says(t, s.Outages()[0].Err, server.Addr(), "nothing listens", "start it")
	server.Restart()
	await.NoError(t, "the server to be there", there)
	server.Kill()
	await.NoError(t, "the server to be away", away)
}

// Without a map of the servers, the outage is reported for the cluster.
func TestUnreachableClusterIsNamed(t *testing.T) {
	addr := freeAddr(t)
	for _, u := range []string{"redis-cluster://" + addr, "redis-sentinel://" + addr + "/m"} {
		s := open(t, u, Options{StartUnreachable: true, Logger: (&logbook.Book{}).Logger()})
		list := s.Outages()
		if len(list) != 1 || list[0].Shard == "" || !errors.Is(list[0].Err, ErrUnreachable) {
			t.Errorf("%s: got %+v, want one shard that is away", u, list)
			continue
		}
		says(t, list[0].Err, addr, "nothing listens", "start it")
	}
}
