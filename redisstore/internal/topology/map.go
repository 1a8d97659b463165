package topology

import (
	"strings"

	"github.com/headgate/headgate/internal/redisurl"
)

// slots is the number of hash slots of a cluster.
const slots = 1 << 14

// A Map is the assignment of keys to servers. It is immutable.
type Map struct {
	// Shards are the primaries and their replicas.
	Shards []Shard

	owners []int16 // for each slot the index of its shard in Shards, or -1; nil if the servers are not a cluster
	epoch  int64   // the sentinels' configuration epoch, which grows with every failover
}

// A Shard is a primary and its replicas.
type Shard struct {
	// Name is the primary's address, or the sentinels' name for the primary.
	Name string
	// Primary is the server that accepts writes.
	Primary *Server
	// Replicas are the addresses of the replicas.
	Replicas []string

	readable []*Server // the replicas that may run read-only commands
	epoch    int64     // configuration epoch of the primary in a cluster: a new owner of a slot has a higher epoch
}

func standaloneMap(s *Server) *Map {
	return &Map{Shards: []Shard{{Name: s.addr, Primary: s}}}
}

// SlotsOf returns the number of slots that each of Shards owns in a cluster. Without a cluster it returns nil.
func (m *Map) SlotsOf() []int {
	if m.owners == nil {
		return nil
	}
	counts := make([]int, len(m.Shards))
	for _, i := range m.owners {
		if i >= 0 {
			counts[i]++
		}
	}
	return counts
}

// shard returns the shard that owns a slot, or nil if there is none.
func (m *Map) shard(slot uint16) *Shard {
	i := 0
	if m.owners != nil {
		i = int(m.owners[slot&(slots-1)])
	}
	if i < 0 || i >= len(m.Shards) {
		return nil
	}
	return &m.Shards[i]
}

// primary returns the primary of a slot, or nil if it has none.
func (m *Map) primary(slot uint16) *Server {
	if s := m.shard(slot); s != nil {
		return s.Primary
	}
	return nil
}

// replica returns a connected replica that may be read from, or nil.
func (m *Map) replica(slot uint16) *Server {
	s := m.shard(slot)
	if s == nil || len(s.readable) == 0 {
		return nil
	}
	if replica := s.readable[int(slot)%len(s.readable)]; replica.Connected() {
		return replica
	}
	return nil
}

// unreachableCount returns the number of shards without a connection to their primary.
func (m *Map) unreachableCount() int {
	n := 0
	if m != nil {
		for i := range m.Shards {
			if !m.Shards[i].Primary.Connected() {
				n++
			}
		}
	}
	return n
}

// UnassignedSlots returns the number of slots without a server, and the number of all slots.
func (m *Map) UnassignedSlots() (unassigned, total int) {
	for _, i := range m.owners {
		if i < 0 {
			unassigned++
		}
	}
	return unassigned, slots
}

// same reports whether both maps send every key to the same server.
func (m *Map) same(other *Map) bool {
	if other == nil || len(m.Shards) != len(other.Shards) || len(m.owners) != len(other.owners) {
		return false
	}
	for slot := range max(1, len(m.owners)) {
		if m.primary(uint16(slot)) != other.primary(uint16(slot)) {
			return false
		}
	}
	return true
}

// Map returns the current map, or an error that says why there is none yet.
func (c *Client) Map() (*Map, error) {
	if m := c.current.Load(); m != nil {
		return m, nil
	}
	return nil, unreachableError(c.endpoint.Addrs[0], c.whyNoMap())
}

// whyNoMap returns why no map has been read.
func (c *Client) whyNoMap() error {
	if p := c.mapError.Load(); p != nil {
		return *p
	}
	for _, s := range c.seeds { // no read of the map has failed yet, but an attempt to connect may have
		if st := s.status.Load(); !st.connected && st.failures > 0 {
			return st.err
		}
	}
	return errNotConnected
}

// ShardOf returns the name of the shard that has a key. If the map is not known, it returns the sentinels' name for the
// primary, or a text that names the cluster.
func (c *Client) ShardOf(key string) string {
	if m := c.current.Load(); m != nil {
		if s := m.shard(slotOf(key)); s != nil {
			return s.Name
		}
	}
	if c.endpoint.Kind == redisurl.Sentinel {
		return c.endpoint.Master
	}
	return "the cluster at " + c.endpoint.Addrs[0]
}

// slotOf returns the slot of a key. It hashes the text between the first braces or, if there is no such text, the whole
// key.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16 // CRC16/XMODEM
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc & (slots - 1)
}

// crcTable holds the CRC16/XMODEM of each byte.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
