package redisstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
)

// Each attempt has another local port, which is in the network's error.
func TestRepeatedDisconnectsAreLoggedOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			_ = conn.(*net.TCPConn).SetLinger(0) // so that it is reset
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	var log logbook.Book
	open(t, "redis://"+listener.Addr().String(), Options{StartUnreachable: true, Logger: log.Logger()})
	await.NoError(t, "not tried often enough", func() error {
		if n := tries.Load(); n < 6 {
			return fmt.Errorf("tried %d times", n)
		}
		return nil
	})
	// There are two errors: the reset can hit a write or a read.
	if n := strings.Count(log.String(), "redis server unreachable"); n < 1 || n > 2 {
		t.Errorf("it was logged %d times in %d tries, want once:\n%s", n, tries.Load(), &log)
	}
}

func TestClusterWithoutSlotsIsExplained(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Config: []string{"cluster-enabled yes"}})
	s := open(t, "redis-cluster://"+server.Addr(), Options{StartUnreachable: true, Secret: testSecret})
	err := take(within(t, unhurried), s, "alice")
	says(t, err, server.Addr(), "without slots", "redis-cli --cluster create")
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	if got, want := s.Shard(headgate.Check{Key: "alice", Limit: headgate.PerSecond(1)}), "the cluster at "+server.Addr(); got != want {
		t.Errorf("its keys are said to be at %q, want %q", got, want)
	}
}
