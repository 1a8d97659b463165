package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
)

// healthStats returns the statistics of this node that alerts depend on.
func (n *Node) healthStats(now time.Time) *control.HealthStats {
	status, degraded := n.stores.Status()
	f := n.health.Stats(n.metrics, degraded, now)
	for _, shard := range status.Shards {
		if !shard.Up && !shard.Replaced {
			f.OpenShards = append(f.OpenShards, shard.Name)
		}
	}
	memory := n.stores.Memory.Stats()
	f.MemoryBytes, f.MemoryMaxBytes = memory.Bytes, memory.MaxBytes
	f.Servers = n.stores.ServerStats()
	if n.gateway != nil {
		earliest := map[string]time.Time{} // by listener
		for _, c := range n.gateway.Stats().Certificates {
			if other, ok := earliest[c.Listener]; !ok || c.NotAfter.Before(other) {
				earliest[c.Listener] = c.NotAfter
			}
		}
		for listener, expires := range earliest {
			f.Certificates = append(f.Certificates, control.CertificateExpiry{Listener: listener, Expires: expires.UTC()})
		}
		slices.SortFunc(f.Certificates, func(a, b control.CertificateExpiry) int { return cmp.Compare(a.Listener, b.Listener) })
	}
	f.Clamp() // heartbeats have a maximum size
	return &f
}
