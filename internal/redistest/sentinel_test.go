package redistest

import (
	"fmt"
	"testing"
	"time"
)

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	set := Sentinel(t, SentinelOptions{Clocks: []time.Duration{0, 10 * time.Second, -10 * time.Second}})
	servers := set.Servers()
	if got := set.Primary(); got != servers[0] {
		t.Errorf("the first primary: got %s, want %s", got, servers[0])
	}
	for i, want := range []time.Duration{0, 10 * time.Second, -10 * time.Second} {
		if got := clockOffset(t, servers[i]); (got - want).Abs() > time.Second {
			t.Errorf("%s: got a clock %v ahead, want %v", servers[i], got, want)
		}
	}
	if got, want := set.URL(), "redis-sentinel://"+addrs(set.Sentinels())+"/mymaster"; got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}

	servers[0].must("SET", "key", "value")
	set.AwaitReplicas()
	second := set.Failover()
	if second == servers[0] {
		t.Errorf("after a failover: got %s still", second)
	}
	expect(t, client(t, "tcp", second.Addr()), "value", "GET", "key")
	expect(t, client(t, "tcp", servers[0].Addr()), "READONLY", "SET", "key", "value")

	old := set.KillPrimary()
	next := set.WaitForFailover(old) // on a busy machine neither this one nor the one before is always the first that could be
	if next == nil || next == old {
		t.Fatalf("after %s was killed: got %v", old, next)
	}
	expect(t, client(t, "tcp", next.Addr()), "value", "GET", "key")
	old.Restart()
	set.Settle()
	expect(t, client(t, "tcp", old.Addr()), "value", "GET", "key")
	var want []*Server
	for _, s := range servers {
		if s != next {
			want = append(want, s)
		}
	}
	if got := fmt.Sprint(set.Replicas()); got != fmt.Sprint(want) {
		t.Errorf("replicas: got %s, want %s", got, want)
	}
}

func TestSentinelsWorkWithPasswordsAndTLS(t *testing.T) {
	t.Parallel()
	set := Sentinel(t, SentinelOptions{Server: Options{Password: "secret", TLS: true}})
	if got, want := set.URL(), "rediss-sentinel://:secret@"+addrs(set.Sentinels())+"/mymaster"; got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
	if got, old := set.Failover(), set.Servers()[0]; got == old {
		t.Errorf("after a failover: got %s still", got)
	}
}
