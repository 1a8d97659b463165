package redisstore

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// slots is how many there are in a cluster.
const slots = 1 << 14

// A topology says which server has which keys. It is never changed; another takes its place.
type topology struct {
	shards []shard
	owners []int16 // by slot, the index of its shard or -1; nil if there is only one
	epoch  int64   // of the cluster's configuration
}

// A shard is a primary and its replicas.
type shard struct {
	name     string // what callers know it by
	primary  *node
	replicas []*node // if they may be asked
	others   []string
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

// shardOf names the primary that has a slot: by its address, or as its sentinels call it. It is empty if there is none.
func (c *connection) shardOf(slot uint16) string {
	if m := c.topology.Load(); m != nil {
		if s := m.shard(slot); s != nil {
			return s.name
		}
	}
	if c.endpoint.kind == sentinel {
		return c.endpoint.master
	}
	return ""
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
	// mapPeriod is how often the map is read anew though nothing has gone wrong.
	mapPeriod = time.Second
	// mapGap is the least time between two readings.
	mapGap = 25 * time.Millisecond
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

// watch reads the map every second, and when it is wanted.
func (c *connection) watch() {
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		period := time.NewTimer(mapPeriod/2 + rand.N(mapPeriod/2))
		select {
		case <-c.life.Done():
		case <-period.C:
		case <-c.wanted:
		}
		period.Stop()
		select {
		case <-c.life.Done():
			return
		case <-gap.C:
		}
		gap.Reset(mapGap)
		if err := c.readMap(c.life, mapPatience); err != nil {
			c.why.Store(&err)
			if c.topology.Load() == nil {
				gap.Reset(lastDelay / 4)
				c.refresh()
			}
		}
	}
}

// readMap reads the map from the sentinels or the cluster.
func (c *connection) readMap(ctx context.Context, patience time.Duration) error {
	switch c.endpoint.kind {
	case sentinel:
		return c.readSentinels(ctx, patience)
	case cluster:
		return c.readCluster(ctx, patience)
	}
	return nil
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

// readCluster asks servers of the cluster until one knows which has which slots.
func (c *connection) readCluster(ctx context.Context, patience time.Duration) error {
	c.mu.Lock()
	nodes := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	known := int64(0)
	if m := c.topology.Load(); m != nil {
		known = m.epoch
	}
	var (
		first  error
		behind *topology
	)
	for _, n := range askable(nodes) {
		m, err := c.clusterSeenBy(ctx, n, patience)
		switch {
		case err != nil && (first == nil || lasting(err) && !lasting(first)):
			first = err
		case err != nil:
		case m.epoch < known: // it has not heard of the latest failover
			behind = m
		default:
			c.adopt(m)
			return nil
		}
	}
	if behind != nil { // nobody has: this is another cluster at the same addresses
		c.adopt(behind)
		return nil
	}
	if first == nil {
		first = headgate.ErrClosed
	}
	return first
}

// clusterSeenBy returns the map as one server sees it.
func (c *connection) clusterSeenBy(ctx context.Context, n *node, patience time.Duration) (*topology, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	results := n.doMulti(ctx, c.builder.ClusterInfo().Build(), c.builder.ClusterSlots().Build())
	m := &topology{owners: make([]int16, slots)}
	for i := range m.owners {
		m.owners[i] = -1
	}
	if text, err := results[0].ToString(); err == nil { // a user may not be allowed to ask
		m.epoch, _ = strconv.ParseInt(parseInfo(text)["cluster_current_epoch"], 10, 64)
	}
	ranges, err := results[1].ToArray()
	if err != nil {
		return nil, explain(err, n.addr)
	}
	for _, r := range ranges {
		if err := c.addRange(m, n, r); err != nil {
			return nil, err
		}
	}
	if len(m.shards) == 0 {
		return nil, &ServerError{Server: n.addr, What: "is of a cluster that has no slots", class: ErrAway, Cure: "create the cluster: redis-cli --cluster create"}
	}
	return m, nil
}

// addRange adds one range of slots: its first and last one, its primary, and the replicas.
func (c *connection) addRange(m *topology, asked *node, r rueidis.RedisMessage) error {
	fields, err := r.ToArray()
	if err != nil || len(fields) < 3 {
		return badAnswer(asked.addr, "CLUSTER SLOTS", err)
	}
	from, err1 := fields[0].AsInt64()
	to, err2 := fields[1].AsInt64()
	if err := errors.Join(err1, err2); err != nil || from < 0 || to >= slots || from > to {
		return badAnswer(asked.addr, "CLUSTER SLOTS", err)
	}
	var addrs []string
	for _, field := range fields[2:] {
		addr, err := addressOf(field, asked.addr)
		if err != nil {
			return badAnswer(asked.addr, "CLUSTER SLOTS", err)
		}
		addrs = append(addrs, addr)
	}
	if addrs[0] == "" {
		return nil
	}
	i := slices.IndexFunc(m.shards, func(s shard) bool { return s.name == addrs[0] })
	if i < 0 {
		s, err := c.newShard(addrs[0], addrs)
		if err != nil {
			return err
		}
		i = len(m.shards)
		m.shards = append(m.shards, s)
	}
	for slot := from; slot <= to; slot++ {
		m.owners[slot] = int16(i)
	}
	return nil
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

// addressOf returns the address in an entry of CLUSTER SLOTS, empty for a server that cannot be reached.
func addressOf(entry rueidis.RedisMessage, asked string) (string, error) {
	fields, err := entry.ToArray()
	if err != nil {
		return "", err
	}
	if len(fields) < 2 {
		return "", errors.New("an entry of a server without address")
	}
	host, err := fields[0].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", err
	}
	port, err := fields[1].AsInt64()
	if err != nil {
		return "", err
	}
	addr, _ := pointed(net.JoinHostPort(host, strconv.FormatInt(port, 10)), asked)
	return addr, nil
}

// adopt makes a map the current one, and forgets servers that are no longer of the set.
func (c *connection) adopt(m *topology) {
	c.topology.Store(m)
	keep := make(map[*node]bool)
	if c.endpoint.kind == cluster {
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

// readSentinels asks the sentinels who is the primary, and believes it if that server says so too.
func (c *connection) readSentinels(ctx context.Context, patience time.Duration) error {
	var first error
	for _, n := range askable(slices.Clone(c.seeds)) {
		m, err := c.primarySeenBy(ctx, n, patience)
		if err == nil {
			c.adopt(m)
			return nil
		}
		if first == nil || lasting(err) && !lasting(first) {
			first = err
		}
	}
	return first
}

func (c *connection) primarySeenBy(ctx context.Context, n *node, patience time.Duration) (*topology, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	master := c.endpoint.master
	results := n.doMulti(ctx,
		c.builder.SentinelGetMasterAddrByName().Master(master).Build(),
		c.builder.SentinelReplicas().Master(master).Build())
	at, err := results[0].AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err):
		return nil, &ServerError{
			Server: n.addr, What: "is a sentinel that knows no primary called " + strconv.Quote(master), class: ErrAway, lasting: true,
			Cure: "see SENTINEL MASTERS for the name to put after the hosts of the URL",
		}
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		return nil, &ServerError{
			Server: n.addr, What: "is not a sentinel", Err: err, class: ErrAway, lasting: true,
			Cure: "give the sentinels' addresses, whose port is " + sentinelPort + " as a rule, or want redis:// for a server",
		}
	case err != nil:
		return nil, explain(err, n.addr)
	case len(at) < 2:
		return nil, badAnswer(n.addr, "SENTINEL GET-MASTER-ADDR-BY-NAME", nil)
	}
	s, err := c.newShard(master, append([]string{net.JoinHostPort(at[0], at[1])}, replicasIn(results[1])...))
	if err != nil {
		return nil, err
	}
	m := &topology{shards: []shard{s}}
	if now := c.topology.Load(); now != nil && now.shards[0].primary == s.primary {
		return m, nil
	}
	if err := s.primary.settled(ctx); err != nil {
		return nil, err
	}
	role, err := roleOf(ctx, s.primary, c.builder)
	if err != nil {
		return nil, err
	}
	if role != rolePrimary {
		return nil, &ServerError{Server: s.primary.addr, What: "is no primary yet, though the sentinels say so", class: ErrAway}
	}
	return m, nil
}

// replicasIn returns the addresses of replicas that a sentinel takes for healthy.
func replicasIn(result rueidis.RedisResult) []string {
	list, err := result.ToArray()
	if err != nil {
		return nil
	}
	var addrs []string
	for _, entry := range list {
		fields, err := entry.AsStrMap()
		if err == nil && fields["ip"] != "" && !strings.Contains(fields["flags"], "down") && !strings.Contains(fields["flags"], "disconnected") {
			addrs = append(addrs, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
	slices.Sort(addrs)
	return addrs
}

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

// Probe tells whether the server behind a name from Shard can decide now: it answers and takes writes. It is also nil for
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
	return nil
}
