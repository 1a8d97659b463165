package limiters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry"
)

func TestMissingServersAreShownAsDown(t *testing.T) {
	var last []redisServer
	at := time.Unix(1_800_000_000, 0)
	unreachable := errors.New("no server responds")
	check := func(after time.Duration, err error, servers ...string) string {
		var found []redisstore.ShardHealth
		for _, server := range servers {
			found = append(found, redisstore.ShardHealth{Shard: server, Server: server, Primary: true})
		}
		at = at.Add(after)
		last = updateServers(last, found, err, at)
		var list []string
		for _, h := range last {
			list = append(list, fmt.Sprintf("%s %v", h.Server, h.Err == nil))
		}
		return strings.Join(list, ", ")
	}
	for _, step := range []struct {
		after   time.Duration
		err     error
		servers []string
		want    string
	}{
		{0, nil, []string{"a", "b"}, "a true, b true"},
		{10 * time.Second, nil, []string{"b", "c"}, "b true, c true, a false"}, // a failover
		{10 * time.Second, unreachable, nil, "b false, c false, a false"},
		{10 * time.Second, nil, []string{"a", "b", "c"}, "a true, b true, c true"},
		{10 * time.Second, nil, []string{"b"}, "b true, a false, c false"},
		{2 * time.Hour, nil, []string{"b"}, "b true"},
	} {
		if got := check(step.after, step.err, step.servers...); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}

// down is the state of a primary after a check to which it did not respond, and up the state before.
func checkedTwice(second redisstore.ShardHealth) redisServer {
	up := redisstore.ShardHealth{
		Shard: "a", Server: "a", Primary: true, Slots: 5461, Version: "7.4.1", Ping: time.Millisecond, CPU: 0.5, OpsPerSecond: 900,
		Clients: 7, MemoryUsed: 1000, NetworkIn: 10, NetworkOut: 20, Evicted: 3, LagBytes: 5,
	}
	at := time.Unix(1_800_000_000, 0)
	list := updateServers(nil, []redisstore.ShardHealth{up}, nil, at)
	return updateServers(list, []redisstore.ShardHealth{second}, nil, at.Add(10*time.Second))[0]
}

func TestFiguresOfFailedServersStay(t *testing.T) {
	down := checkedTwice(redisstore.ShardHealth{Shard: "a", Server: "a", Primary: true, Slots: 5461, CPU: -1, Err: errors.New("gone")})
	if down.NetworkIn != 10 || down.NetworkOut != 20 || down.Evicted != 3 || down.MemoryUsed != 1000 || down.Version != "7.4.1" {
		t.Errorf("got %+v, want the counters and the memory of the last report", down)
	}
	if down.CPU != 0 || down.OpsPerSecond != 0 || down.Clients != 0 {
		t.Errorf("got %+v, want no activity", down)
	}
	if down.downSince.IsZero() || down.replaced || down.Slots != 5461 {
		t.Errorf("got %+v, want a primary that is down since the second check", down)
	}
}

// After a failover, the circuit of the failed primary is closed, because nothing calls it. It is down nevertheless, but
// the store decides without it.
func TestReplacedPrimariesAreDown(t *testing.T) {
	old := checkedTwice(redisstore.ShardHealth{Shard: "b", Server: "a", CPU: -1, Err: errors.New("gone")})
	if !old.replaced || !old.Primary {
		t.Errorf("got %+v, want a replaced server under its last role", old)
	}
	back := redisServer{ShardHealth: redisstore.ShardHealth{Shard: "b", Server: "c"}} // a former primary, now a replica
	servers := []redisServer{old, back}
	got := markReplaced([]telemetry.ShardStatus{{Name: "a", Up: true}, {Name: "b", Up: true}, {Name: "c", Up: true}}, servers, nil)
	if len(got) != 2 || got[0].Up || !got[0].Replaced || got[0].Error == "" || got[0].Since.IsZero() || !got[1].Up {
		t.Errorf("got %+v, want a as down and replaced, b as up, and no c", got)
	}
	if slices.ContainsFunc(got, isDegraded) {
		t.Errorf("got %+v, want a store that is not degraded", got)
	}
	open := []telemetry.ShardStatus{{Name: "a", Error: "gone"}} // nothing has closed its circuit yet
	if got := markReplaced(slices.Clone(open), servers, nil); !got[0].Replaced {
		t.Errorf("got %+v, want a replaced shard", got)
	}
	if got := markReplaced(open, servers, []redisstore.Outage{{Shard: "a"}}); got[0].Replaced {
		t.Errorf("got %+v, want an outage: the store uses it again", got)
	}
}

func TestStatisticsOfFailedServersSaySinceWhen(t *testing.T) {
	s := &Stores{}
	s.servers.Store(&[]redisServer{checkedTwice(redisstore.ShardHealth{Shard: "a", Server: "a", Primary: true, Err: errors.New("gone")})})
	got := s.ServerStats()[0]
	if got.Up || got.Error != "gone" || got.DownSince.IsZero() || got.Role != control.RolePrimary || got.MemoryBytes != 1000 {
		t.Errorf("got %+v", got)
	}
}
