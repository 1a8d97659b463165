package identity

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// UntrustedProxies are peers that seem to be load balancers, but are not trusted. All clients behind such a peer have
// its address, and so share one limit.
type UntrustedProxies struct {
	// Header is a forwarding header that the peers send.
	Header string
	// Peers are the addresses of the peers, sorted. The zero Addr is a peer without an address, as on a Unix socket.
	Peers []netip.Addr
}

const (
	// untrustedSamples is the number of samples that are kept.
	untrustedSamples = 64
	// minUntrustedSamples is the minimum number of samples for a result.
	minUntrustedSamples = 20
	// maxUntrustedPeers is the maximum number of peers in a result. If there are more, they are probably clients that send
	// forwarding headers themselves.
	maxUntrustedPeers = 16
)

// forwardingHeaders are headers that load balancers add, the most common ones first.
var forwardingHeaders = []headerName{
	nameOf("X-Forwarded-For"), nameOf("Forwarded"), nameOf("X-Real-Ip"), nameOf("Cf-Connecting-Ip"),
	nameOf("True-Client-Ip"), nameOf("Fastly-Client-Ip"), nameOf("X-Client-Ip"), nameOf("X-Azure-Clientip"),
}

// An untrustedSampler holds the samples of requests.
type untrustedSampler struct {
	sampleNext atomic.Bool // the next request becomes a sample

	mu      sync.Mutex
	samples [untrustedSamples]untrustedSample // a ring
	count   int                               // number of samples that have been taken
}

type untrustedSample struct {
	peer   netip.Addr
	header string // forwarding header; empty if there was none, or the peer is trusted
}

// SampleProxies makes the next request a sample for UntrustedProxies. Call it a few times a second. For all other
// requests the sampling costs only one atomic load.
func (ident *Identifier) SampleProxies() { ident.untrusted.sampleNext.Store(true) }

// UntrustedProxies returns peers that are probably load balancers missing in Config.TrustedProxies. This is so if at
// least four in five of the latest samples had a forwarding header, and came from few addresses that are not trusted.
// It returns false if there are no such peers, or too few samples.
func (ident *Identifier) UntrustedProxies() (UntrustedProxies, bool) {
	u := &ident.untrusted
	u.mu.Lock()
	defer u.mu.Unlock()
	samples := u.samples[:min(u.count, untrustedSamples)]
	if len(samples) < minUntrustedSamples {
		return UntrustedProxies{}, false
	}
	var report UntrustedProxies
	forwarded := 0
	for _, s := range samples {
		if s.header == "" {
			continue
		}
		forwarded++
		report.Header = s.header
		if !slices.Contains(report.Peers, s.peer) {
			report.Peers = append(report.Peers, s.peer)
		}
	}
	if forwarded*5 < len(samples)*4 || len(report.Peers) > maxUntrustedPeers {
		return UntrustedProxies{}, false
	}
	slices.SortFunc(report.Peers, netip.Addr.Compare)
	return report, true
}

// sample adds a request to the samples.
func (u *untrustedSampler) sample(a *Attributes) {
	if !u.sampleNext.CompareAndSwap(true, false) {
		return
	}
	s := untrustedSample{peer: a.peer}
	if !a.fromProxy {
		for _, name := range forwardingHeaders {
			if len(a.lines(name)) > 0 {
				s.header = name.canonical
				break
			}
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.samples[u.count%untrustedSamples] = s
	u.count++
}
