package gossip

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
)

func TestGossipOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fleet.LedgerOptions, *Options)
		want   string
	}{
		{"no name", func(_ *fleet.LedgerOptions, o *Options) { o.Name = "" }, "Name"},
		{"long name", func(_ *fleet.LedgerOptions, o *Options) { o.Name = strings.Repeat("x", 65) }, "Name"},
		{"long cluster", func(_ *fleet.LedgerOptions, o *Options) { o.Cluster = strings.Repeat("x", 65) }, "Cluster"},
		{"bad bind", func(_ *fleet.LedgerOptions, o *Options) { o.BindAddr = "127.0.0.1" }, "BindAddr"},
		{"bad port", func(_ *fleet.LedgerOptions, o *Options) { o.BindAddr = "127.0.0.1:70000" }, "port"},
		{"not ours", func(_ *fleet.LedgerOptions, o *Options) { o.BindAddr = "192.0.2.1:0" }, "192.0.2.1"},
		{"bad advertise", func(_ *fleet.LedgerOptions, o *Options) { o.Advertise = "here" }, "Advertise"},
		{"everywhere by IPv6", func(_ *fleet.LedgerOptions, o *Options) { o.BindAddr = "[::]:0" }, "Advertise"},
		{"bad join", func(_ *fleet.LedgerOptions, o *Options) { o.Join = []string{"seed"} }, "Join"},
		{"join without a port", func(_ *fleet.LedgerOptions, o *Options) { o.Join = []string{"seed:0"} }, "Join"},
		{"odd key", func(_ *fleet.LedgerOptions, o *Options) { o.Key = []byte("short") }, "Key"},
		{"empty key", func(_ *fleet.LedgerOptions, o *Options) { o.Key = []byte{} }, "Key"},
		{"no bandwidth", func(_ *fleet.LedgerOptions, o *Options) { o.Bandwidth = 100 }, "Bandwidth"},
		{"no time", func(_ *fleet.LedgerOptions, o *Options) { o.Interval = time.Millisecond }, "Interval"},
		{"no mesh", func(_ *fleet.LedgerOptions, o *Options) { o.MeshSize = -1 }, "MeshSize"},
		{"wide fanout", func(_ *fleet.LedgerOptions, o *Options) { o.Fanout = 100 }, "Fanout"},
		{"no probes", func(_ *fleet.LedgerOptions, o *Options) { o.Probe = time.Millisecond }, "Probe"},
		{"no memory", func(_ *fleet.LedgerOptions, o *Options) { o.Forget = -1 }, "Forget"},
		{"short secret", func(lo *fleet.LedgerOptions, _ *Options) { lo.Secret = []byte("x") }, "Secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lo, o := fleet.LedgerOptions{}, Options{Name: "a", BindAddr: "127.0.0.1:0"}
			tt.change(&lo, &o)
			g, err := New(lo, o)
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
		o := Options{Cluster: cluster, Key: []byte(key)}
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
