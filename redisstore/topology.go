package redisstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
)

// slots is how many there are in a cluster.
const slots = 1 << 14

// A topology says which server has which keys. It is never changed; another takes its place.
type topology struct {
	shards []shard
	owners []int16 // by slot, the index of its shard or -1; nil if there is only one
	epoch  int64   // of the configuration, as sentinels have it: it grows with every failover
}

// A shard is a primary and its replicas.
type shard struct {
	name     string // what callers know it by
	primary  *node
	replicas []*node // if they may be asked
	others   []string
	epoch    int64 // of the primary's claim to its slots, in a cluster: who takes one over has a higher one
}

func lone(n *node) *topology {
	return &topology{shards: []shard{{name: n.addr, primary: n}}}
}

func (m *topology) shard(slot uint16) *shard {
	i := 0
	if m.owners != nil {
		i = int(m.owners[slot&(slots-1)])
	}
	if i < 0 || i >= len(m.shards) {
		return nil
	}
	return &m.shards[i]
}

// primary returns the server that decides, or nil if there is none.
func (m *topology) primary(slot uint16) *node {
	if s := m.shard(slot); s != nil {
		return s.primary
	}
	return nil
}

// replica returns a server that may be asked instead, or nil.
func (m *topology) replica(slot uint16) *node {
	s := m.shard(slot)
	if s == nil || len(s.replicas) == 0 {
		return nil
	}
	if n := s.replicas[int(slot)%len(s.replicas)]; n.up() {
		return n
	}
	return nil
}

// away returns how many shards have a primary that we are not connected to.
func (m *topology) away() int {
	n := 0
	if m != nil {
		for i := range m.shards {
			if !m.shards[i].primary.up() {
				n++
			}
		}
	}
	return n
}

// uncovered returns how many slots have no server.
func (m *topology) uncovered() int {
	n := 0
	for _, i := range m.owners {
		if i < 0 {
			n++
		}
	}
	return n
}

// shardOf names the primary that has a slot: by its address, or as its sentinels call it. If none is known, it names the cluster.
func (c *connection) shardOf(slot uint16) string {
	if m := c.topology.Load(); m != nil {
		if s := m.shard(slot); s != nil {
			return s.name
		}
	}
	if c.endpoint.Kind == redisurl.Sentinel {
		return c.endpoint.Master
	}
	return "the cluster at " + c.endpoint.Addrs[0]
}

// slotOf returns the slot of a key: that of what stands between its first braces, if something does.
func (c *connection) slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc & (slots - 1)
}

// crcTable is for CRC16 as XMODEM has it.
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

const (
	// mapPeriod is how often the map is read again though nothing has gone wrong.
	mapPeriod = time.Second
	// Between two readings is at least that much time, which doubles while reading brings nothing new: not far at first, as
	// a failover takes some seconds and each reading that comes late is time in which nobody decides.
	mapGap, hastyMapGap, maxMapGap = 25 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond
	// mapHaste is how long that lasts.
	mapHaste = 10 * time.Second
	// mapPatience is how long one server may take to answer.
	mapPatience = 250 * time.Millisecond
	// mapAsked is how many servers are asked at most in one reading.
	mapAsked = 8
)

// refresh asks for a new map, soon.
func (c *connection) refresh() {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
}

// watch reads the map every second, and when it is wanted. The longer it is wanted in vain the longer it waits, so that a
// fleet does not ask a cluster to death that is in trouble.
func (c *connection) watch() {
	gap, since := mapGap, time.Now()
	missed, missing := 0, time.Time{}
	ready := time.NewTimer(0)
	defer ready.Stop()
	for {
		period := time.NewTimer(mapPeriod/2 + rand.N(mapPeriod/2))
		select {
		case <-c.life.Done():
		case <-period.C:
			gap, since = mapGap, time.Now()
		case <-c.wanted:
		}
		period.Stop()
		select {
		case <-c.life.Done():
			return
		case <-ready.C:
		}
		before := c.topology.Load()
		err := c.readMap(c.life, mapPatience)
		if err != nil && before == nil {
			c.refresh()
		}
		if err == nil && !c.topology.Load().same(before) {
			gap, since = mapGap, time.Now()
		}
		// A primary that is gone is looked for though nobody asks: a guard may well have seen to it that nobody does.
		away := c.topology.Load().away()
		if away > missed {
			missing = time.Now()
		}
		if missed = away; away > 0 && time.Since(missing) < mapHaste {
			c.refresh()
		}
		ready.Reset(gap/2 + rand.N(gap/2))
		most := maxMapGap
		if time.Since(since) < mapHaste {
			most = hastyMapGap
		}
		gap = min(2*gap, most)
	}
}

// same reports whether two maps send every key to the same server.
func (m *topology) same(other *topology) bool {
	if other == nil || len(m.shards) != len(other.shards) || len(m.owners) != len(other.owners) {
		return false
	}
	for slot := range max(1, len(m.owners)) {
		if m.primary(uint16(slot)) != other.primary(uint16(slot)) {
			return false
		}
	}
	return true
}

// readMap reads the map from the sentinels or the cluster. One does at a time: what is read is judged by what is known.
func (c *connection) readMap(ctx context.Context, patience time.Duration) error {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return away(c.endpoint.Addrs[0], ctx.Err())
	}
	var err error
	switch c.endpoint.Kind {
	case redisurl.Sentinel:
		err = c.readSentinels(ctx, patience)
	case redisurl.Cluster:
		err = c.readCluster(ctx, patience)
	}
	if err != nil {
		c.why.Store(&err)
	}
	return err
}

// askable returns the servers to ask, those that are up first, in an order by chance.
func askable(nodes []*node) []*node {
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	slices.SortStableFunc(nodes, func(a, b *node) int { return rank(a) - rank(b) })
	return nodes[:min(len(nodes), mapAsked)]
}

func rank(n *node) int {
	if n.up() {
		return 0
	}
	return 1
}

// newShard returns the shard of a primary and its replicas.
func (c *connection) newShard(name string, addrs []string) (shard, error) {
	s := shard{name: name}
	var err error
	if s.primary, err = c.node(addrs[0]); err != nil {
		return s, err
	}
	for _, addr := range addrs[1:] {
		if addr == "" {
			continue
		}
		s.others = append(s.others, addr)
		if c.readReplicas {
			n, err := c.node(addr)
			if err != nil {
				return s, err
			}
			s.replicas = append(s.replicas, n)
		}
	}
	return s, nil
}

// adopt makes a map the current one, and forgets servers that are no longer of the set.
func (c *connection) adopt(m *topology) {
	c.topology.Store(m)
	keep := make(map[*node]bool)
	if c.endpoint.Kind == redisurl.Cluster {
		for _, n := range c.seeds {
			keep[n] = true
		}
	}
	var gone []*node
	c.mu.Lock()
	for _, s := range m.shards {
		keep[s.primary] = true
		s.primary.wanted = time.Now()
		for _, addr := range s.others {
			if n := c.nodes[addr]; n != nil {
				keep[n] = true
			}
		}
	}
	for addr, n := range c.nodes {
		// Another may have pointed to it just now.
		if !keep[n] && time.Since(n.wanted) > forgetAfter {
			delete(c.nodes, addr)
			gone = append(gone, n)
		}
	}
	c.mu.Unlock()
	for _, n := range gone {
		c.running.Go(func() { n.close(&ServerError{Server: n.addr, What: "has left", class: ErrAway}) })
	}
}

// forgetAfter is how long a server is kept that is in no map any more.
const forgetAfter = 10 * time.Second

const (
	rolePrimary = "master"
	roleReplica = "slave"
)

// roleOf asks a server for its role. Of one that does not let us ask it takes the best for granted.
func roleOf(ctx context.Context, n *node, b rueidis.Builder) (string, error) {
	fields, err := n.do(ctx, b.Role().Build()).ToArray()
	if err != nil {
		if e := explain(err, n.addr); !strings.HasPrefix(err.Error(), "NOPERM") {
			return "", e
		}
		return rolePrimary, nil
	}
	if len(fields) == 0 {
		return "", badAnswer(n.addr, "ROLE", nil)
	}
	role, err := fields[0].ToString()
	if err != nil {
		return "", badAnswer(n.addr, "ROLE", err)
	}
	return role, nil
}

// runsScripts reports whether a server would run a script that decides.
func (s *Store) runsScripts(ctx context.Context, n *node) error {
	ready := s.program().ready
	err := n.do(ctx, s.command(ready, nil, nil)).Error()
	if unknownScript(err) {
		err = n.do(ctx, s.wholeCommand(ready, nil, nil)).Error()
	}
	return explain(err, n.addr)
}

// Probe reports whether the server behind a name from Shard can decide now: it answers and takes writes. It is also nil for
// a name that stands for no server any more.
func (s *Store) Probe(ctx context.Context, name string) error {
	c := s.conn
	m := c.topology.Load()
	if m == nil {
		_, err := (&try{c: c}).first()
		return err
	}
	i := slices.IndexFunc(m.shards, func(s shard) bool { return s.name == name })
	if i < 0 {
		return nil
	}
	n := m.shards[i].primary
	role, err := roleOf(ctx, n, c.builder)
	if err != nil {
		c.refresh()
		return err
	}
	if role != rolePrimary {
		c.refresh()
		return &ServerError{Server: name, What: "is a replica, which takes no writes", Cure: curePrimary}
	}
	// It may have no memory left, or want replicas, or a disk. From Redis 7 on it says so to a script that would write.
	if err := s.runsScripts(ctx, n); err != nil {
		return err
	}
	if !c.clustered() {
		return nil
	}
	// It may well be there and serve nobody, as long as others are not.
	text, err := n.do(ctx, c.builder.ClusterInfo().Build()).ToString()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "NOPERM"):
	case err != nil:
		return explain(err, n.addr)
	case parseInfo(text)["cluster_state"] == "fail":
		c.refresh()
		return &ServerError{Server: name, What: "is of a cluster that does not serve all keys now", Cure: cureCluster}
	}
	return nil
}
