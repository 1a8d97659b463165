package gossip

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
)

func TestLostHostsAreBounded(t *testing.T) {
	m := newMembership(time.Hour)
	for i := range maxLost + 100 {
		m.join(fmt.Sprint("host-", i))
		if i >= maxLost-1 { // the earlier ones are lost together
			m.advance(time.Second, time.Second)
		}
	}
	if m.Live() != 1 || m.Known() != maxLost+1 {
		t.Errorf("%d live and %d known, want 1 and %d", m.Live(), m.Known(), maxLost+1)
	}
	if missing := m.lost(); !slices.Contains(missing, fmt.Sprint("host-", maxLost+99)) || len(missing) != maxLost {
		t.Errorf("%d are missed, want %d and the last one among them", len(missing), maxLost)
	}
	if _, gone := m.advance(time.Hour, time.Second); len(gone) != maxLost || m.Known() != 1 {
		t.Errorf("%d gone, %d known, want %d and 1", len(gone), m.Known(), maxLost)
	}
}

// The mesh forgets hosts that come and die silently when the membership does.
func TestTheMeshForgetsHostsWithTheMembership(t *testing.T) {
	h := startReal(t, "a", func(_ *fleet.LedgerOptions, o *Options) {
		o.Probe, o.MeshSize = 50*time.Millisecond, 2*maxLost // in a larger fleet it takes longer until one is lost
	})
	m := h.currentMesh().(*memberMesh)
	meta := binary.LittleEndian.AppendUint64([]byte{packetVersion}, h.fleet)
	meta = binary.LittleEndian.AppendUint64(meta, 1)
	for i := range maxLost + 100 {
		node := &memberlist.Node{Name: fmt.Sprint("host-", i), Addr: net.IPv4(127, 1, byte(i>>8), byte(i)), Port: 1, Meta: meta}
		m.NotifyJoin(node)
		m.NotifyLeave(node)
	}
	await.True(t, "the mesh to remember as many as the membership", func() bool {
		m.mu.RLock()
		defer m.mu.RUnlock()
		return h.Live() == 1 && len(m.nodes) == maxLost && h.Known() == maxLost+1
	})
}

// A host that is started again under another name, at the same address, is not missed under the first.
func TestGossipForgetsANameWhoseAddressAnotherHas(t *testing.T) {
	t.Parallel()
	a := startReal(t, "a", nil)
	b, c := startReal(t, "b", joining(a)), startReal(t, "c", joining(a))
	await.True(t, "three hosts know each other", allLive(3, a, b, c))
	addr := c.Addr()
	c.kill(t)
	d := startReal(t, "d", func(lo *fleet.LedgerOptions, o *Options) {
		joining(a)(lo, o)
		o.BindAddr = addr
	})
	await.True(t, "c is gone, and d in its place", func() bool {
		for _, h := range []*realHost{a, b, d} {
			if h.Live() != 3 || h.Known() != 3 {
				return false
			}
		}
		return a.diary.has(PeerForgotten)
	})
}
