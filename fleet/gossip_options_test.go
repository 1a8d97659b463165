package fleet

import (
	"strings"
	"testing"
	"time"
)

func TestGossipOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*LedgerOptions, *GossipOptions)
		want   string
	}{
		{"no name", func(_ *LedgerOptions, o *GossipOptions) { o.Name = "" }, "Name"},
		{"long name", func(_ *LedgerOptions, o *GossipOptions) { o.Name = strings.Repeat("x", 65) }, "Name"},
		{"long cluster", func(_ *LedgerOptions, o *GossipOptions) { o.Cluster = strings.Repeat("x", 65) }, "Cluster"},
		{"bad bind", func(_ *LedgerOptions, o *GossipOptions) { o.BindAddr = "127.0.0.1" }, "BindAddr"},
		{"bad port", func(_ *LedgerOptions, o *GossipOptions) { o.BindAddr = "127.0.0.1:70000" }, "port"},
		{"not ours", func(_ *LedgerOptions, o *GossipOptions) { o.BindAddr = "192.0.2.1:0" }, "192.0.2.1"},
		{"bad advertise", func(_ *LedgerOptions, o *GossipOptions) { o.Advertise = "here" }, "Advertise"},
		{"everywhere by IPv6", func(_ *LedgerOptions, o *GossipOptions) { o.BindAddr = "[::]:0" }, "Advertise"},
		{"bad join", func(_ *LedgerOptions, o *GossipOptions) { o.Join = []string{"seed"} }, "Join"},
		{"join without a port", func(_ *LedgerOptions, o *GossipOptions) { o.Join = []string{"seed:0"} }, "Join"},
		{"odd key", func(_ *LedgerOptions, o *GossipOptions) { o.Key = []byte("short") }, "Key"},
		{"empty key", func(_ *LedgerOptions, o *GossipOptions) { o.Key = []byte{} }, "Key"},
		{"no bandwidth", func(_ *LedgerOptions, o *GossipOptions) { o.Bandwidth = 100 }, "Bandwidth"},
		{"no time", func(_ *LedgerOptions, o *GossipOptions) { o.Interval = time.Millisecond }, "Interval"},
		{"no mesh", func(_ *LedgerOptions, o *GossipOptions) { o.MeshSize = -1 }, "MeshSize"},
		{"wide fanout", func(_ *LedgerOptions, o *GossipOptions) { o.Fanout = 100 }, "Fanout"},
		{"no probes", func(_ *LedgerOptions, o *GossipOptions) { o.Probe = time.Millisecond }, "Probe"},
		{"no memory", func(_ *LedgerOptions, o *GossipOptions) { o.Forget = -1 }, "Forget"},
		{"short secret", func(lo *LedgerOptions, _ *GossipOptions) { lo.Secret = []byte("x") }, "Secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, o := LedgerOptions{}, GossipOptions{Name: "a", BindAddr: "127.0.0.1:0"}
			tt.change(&lo, &o)
			g, err := NewGossip(lo, o)
			if err == nil {
				_ = g.Close()
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to speak of %s", err, tt.want)
			}
		})
	}
}

// Hosts that are given no secret find each other by their key and name, and no others.
func TestGossipSecretIsMadeOfKeyAndCluster(t *testing.T) {
	of := func(cluster, key string) uint64 {
		o := GossipOptions{Cluster: cluster, Key: []byte(key)}
		return fleetOf(cluster, o.secret())
	}
	one, other := of("a", "k"), of("a", "k")
	if one != other {
		t.Error("two hosts of a fleet differ")
	}
	if one == of("a", "l") || one == of("b", "k") {
		t.Error("two fleets are the same")
	}
}
