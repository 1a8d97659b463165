package identity

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// look makes n requests from each peer, all of them samples.
func look(t *testing.T, id *Identifier, n int, peers []string, headers ...string) {
	t.Helper()
	var a Attributes
	for range n {
		for _, peer := range peers {
			id.SampleProxies()
			id.Read(request(peer, "http://api.example.com/", headers...), &a)
			if _, ok := a.Get(attr(t, "ip")); !ok {
				t.Fatalf("%s: no ip", peer)
			}
		}
	}
}

func TestLoadBalancersThatAreNotTrustedAreFound(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"} {
		id := newID(t, Config{})
		look(t, id, minUntrustedSamples/2, []string{"10.0.0.2:1", "10.0.0.1:1"}, name+": 203.0.113.9")
		got, ok := id.UntrustedProxies()
		want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
		if !ok || !slices.Equal(got.Peers, want) || got.Header != name {
			t.Errorf("%s: got %+v, %v; want %v", name, got, ok, want)
		}
	}
}

func TestOthersAreNotTakenForLoadBalancers(t *testing.T) {
	const forwarded = "X-Forwarded-For: 203.0.113.9"
	one := []string{"10.0.0.1:1"}
	var many []string
	for i := range maxUntrustedPeers + 1 {
		many = append(many, fmt.Sprintf("198.51.100.%d:1", i+1))
	}
	for name, look := range map[string]func(*Identifier){
		"too few to know":   func(id *Identifier) { look(t, id, minUntrustedSamples-1, one, forwarded) },
		"no header":         func(id *Identifier) { look(t, id, untrustedSamples, one) },
		"trusted":           func(id *Identifier) { look(t, id, untrustedSamples, []string{"192.0.2.1:1"}, forwarded) },
		"many peers":        func(id *Identifier) { look(t, id, 4, many, forwarded) },
		"some of many":      func(id *Identifier) { look(t, id, 16, one, forwarded); look(t, id, 16, one) },
		"long ago":          func(id *Identifier) { look(t, id, 64, one, forwarded); look(t, id, 64, one) },
		"peers and clients": func(id *Identifier) { look(t, id, 8, one, forwarded); look(t, id, 4, many) },
	} {
		id := newID(t, Config{TrustedProxies: nets(t, "192.0.2.0/24")})
		look(id)
		if got, ok := id.UntrustedProxies(); ok {
			t.Errorf("%s: got %+v, want none", name, got)
		}
	}
}

func TestOnlySamplesAreLookedAt(t *testing.T) {
	id := newID(t, Config{})
	r := request("10.0.0.1:1", "http://api.example.com/", "X-Forwarded-For: 203.0.113.9")
	var a Attributes
	id.SampleProxies()
	for range 10 {
		id.Read(r, &a)
		_, _ = a.Get(attr(t, "ip"))
	}
	if got := id.untrusted.count; got != 1 {
		t.Errorf("got %d samples, want 1", got)
	}
}
