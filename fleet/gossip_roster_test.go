package fleet

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func TestRosterIsBounded(t *testing.T) {
	w := newGossipWorld(t, 1)
	r := newRoster(w, time.Hour)
	for i := range maxSilent + 100 {
		w.now += time.Millisecond
		name := fmt.Sprint("host-", i)
		r.alive(name)
		r.failed(name)
		r.failed(name)
	}
	if r.Live() != 1 || r.Known() != maxSilent+1 {
		t.Errorf("%d live and %d known, want 1 and %d", r.Live(), r.Known(), maxSilent+1)
	}
	if missing := r.missing(); !slices.Contains(missing, fmt.Sprint("host-", maxSilent+99)) || len(missing) != maxSilent {
		t.Errorf("%d are missed, want %d and the last one among them", len(missing), maxSilent)
	}
	w.now += time.Hour
	if gone := r.tidy(); len(gone) != maxSilent || r.Known() != 1 {
		t.Errorf("%d gone, %d known, want %d and 1", len(gone), r.Known(), maxSilent)
	}
}

// Hosts that come and die without a word, however many, are not remembered by the mesh for longer than by the roster.
func TestTheMeshForgetsWhomTheRosterDoes(t *testing.T) {
	h := startReal(t, "a", nil)
	m := h.network().(*memberMesh)
	meta := binary.LittleEndian.AppendUint64([]byte{packetVersion}, h.fleet)
	meta = binary.LittleEndian.AppendUint64(meta, 1)
	for i := range maxSilent + 100 {
		node := &memberlist.Node{Name: fmt.Sprint("host-", i), Addr: net.IPv4(127, 0, 0, 1), Port: 1, Meta: meta}
		m.NotifyJoin(node)
		m.NotifyLeave(node)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.nodes) != maxSilent || h.Known() != maxSilent+1 {
		t.Errorf("the mesh remembers %d, and %d are known, want %d and %d", len(m.nodes), h.Known(), maxSilent, maxSilent+1)
	}
}
