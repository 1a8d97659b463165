package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
)

func TestHealthOfALoneServer(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 64 << 20})
	s := open(t, server.URL(), Options{Secret: testSecret})
	for i := range 2 {
		for j := range 2000 {
			if err := take(within(t, unhurried), s, fmt.Sprint("client", j)); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.Health(within(t, unhurried))
		if err != nil || len(list) != 1 {
			t.Fatalf("got %v, %v", list, err)
		}
		h := list[0]
		if h.Err != nil || h.Server != server.Addr() || h.Shard != server.Addr() || !h.Primary || h.Version == "" || h.Ping <= 0 ||
			h.MemoryUsed == 0 || h.MemoryMax != 64<<20 || h.Clients == 0 || h.Scripts == 0 || h.Connects != 1 {
			t.Errorf("got %+v", h)
		}
		if first := i == 0; first != (h.CPU == -1) || !first && (h.CPU <= 0 || h.CPU > 2) {
			t.Errorf("call %d: CPU %v", i, h.CPU)
		}
	}
}

func testHealthOfACluster(t *testing.T, cluster *redistest.ClusterSet) {
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	list, err := s.Health(within(t, unhurried))
	if err != nil || len(list) != 6 {
		t.Fatalf("got %d servers, %v", len(list), err)
	}
	slots := 0
	for i, h := range list {
		slots += h.Slots
		if h.Primary != (h.Slots > 5000) {
			t.Errorf("%d: got %d slots, want a third of them on each primary", i, h.Slots)
		}
		if h.Err != nil || h.Primary != (i%2 == 0) || h.Shard != list[i-i%2].Server || h.LinkDown || h.Primary && h.Replicas != 1 {
			t.Errorf("%d: got %+v", i, h)
		}
	}
	if slots != 16384 {
		t.Errorf("got %d slots, want 16384", slots)
	}
	await.NoError(t, "replicas have caught up", func() error { // they acknowledge once a second
		list, err := s.Health(within(t, unhurried))
		for _, h := range list {
			if h.LagBytes > 10_000 || h.LagTime > unhurried {
				err = fmt.Errorf("%s: lag %d bytes, %v", h.Server, h.LagBytes, h.LagTime)
			}
		}
		return err
	})
	dead := cluster.Servers()[0]
	dead.Kill()
	list, err = s.Health(within(t, unhurried))
	if err != nil || len(list) != 6 {
		t.Fatalf("got %d servers, %v", len(list), err)
	}
	for _, h := range list {
		if gone := h.Server == dead.Addr(); gone != (h.Err != nil) {
			t.Errorf("got %+v", h)
		} else if gone {
			says(t, h.Err, dead.Addr())
		}
	}
}

func TestHealthBehindSentinels(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.SentinelOptions{})
	s := open(t, set.URL(), Options{Secret: testSecret})
	list, err := s.Health(within(t, unhurried))
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for i, h := range list {
		if h.Err != nil || h.Shard != redistest.PrimaryName || h.Primary != (i == 0) {
			t.Errorf("%d: got %+v", i, h)
		}
	}
	set.Replicas()[0].Pause()
	defer set.Replicas()[0].Resume()
	begin := time.Now()
	if _, err := s.Health(within(t, 200*time.Millisecond)); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > soon {
		t.Errorf("with a server that hangs it took %v", took)
	}
}
