package redisstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// behindFor is for how long all servers that answer may be behind what is known. Word gets round in less.
const behindFor = 2 * time.Second

// readCluster asks servers of the cluster until one knows which has which slots.
func (c *connection) readCluster(ctx context.Context, patience time.Duration) error {
	c.mu.Lock()
	nodes := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	known := c.topology.Load()
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
		case m.isBehind(known):
			behind = m
		default:
			c.behind = time.Time{}
			c.adopt(m)
			return nil
		}
	}
	if behind != nil {
		switch {
		case c.behind.IsZero(): // who knows more may be busy
			c.behind = time.Now()
		case time.Since(c.behind) > behindFor: // this is another cluster at the same addresses
			c.behind = time.Time{}
			c.adopt(behind)
		}
		return nil
	}
	if first == nil {
		first = headgate.ErrClosed
	}
	return first
}

// isBehind reports whether the server that a map is from has not heard of something that is known: that a slot is another's by
// now, whose epoch is higher. That is how the cluster itself decides between two who claim a slot. The cluster's current epoch
// would not do: it grows when votes are asked for, and all have heard of that before anybody hears who won.
//
// Where epochs are the same, as they are if we may not ask for them, one that is there is believed to have taken the place of
// one that is not.
func (m *topology) isBehind(known *topology) bool {
	if known == nil {
		return false
	}
	for slot := range max(len(m.owners), len(known.owners)) {
		is, was := m.shard(uint16(slot)), known.shard(uint16(slot))
		switch {
		case was == nil:
		case is == nil || is.epoch < was.epoch:
			return true
		case is.epoch == was.epoch && was.primary.up() && !is.primary.up():
			return true
		}
	}
	return false
}

// clusterSeenBy returns the map as one server sees it.
func (c *connection) clusterSeenBy(ctx context.Context, n *node, patience time.Duration) (*topology, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	results := n.doMulti(ctx, c.builder.ClusterNodes().Build(), c.builder.ClusterSlots().Build())
	m := &topology{owners: make([]int16, slots)}
	for i := range m.owners {
		m.owners[i] = -1
	}
	var epochs map[string]int64
	if text, err := results[0].ToString(); err == nil { // a user may not be allowed to ask
		epochs = epochsOf(text)
	}
	ranges, err := results[1].ToArray()
	if err != nil {
		return nil, explain(err, n.addr)
	}
	for _, r := range ranges {
		if err := c.addRange(m, n, r, epochs); err != nil {
			return nil, err
		}
	}
	if len(m.shards) == 0 {
		return nil, &ServerError{Server: n.addr, What: "is of a cluster that has no slots", class: ErrAway, Cure: "create the cluster: redis-cli --cluster create"}
	}
	return m, nil
}

// epochsOf returns the epochs of the servers' configurations from what CLUSTER NODES answers, by their IDs: each line is
// ID ADDRESS FLAGS PRIMARY PING PONG EPOCH LINK SLOT….
func epochsOf(text string) map[string]int64 {
	epochs := make(map[string]int64)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 6 {
			epochs[fields[0]], _ = strconv.ParseInt(fields[6], 10, 64) // 0 if it is none
		}
	}
	return epochs
}

// addRange adds one range of slots: its first and last one, its primary, and the replicas.
func (c *connection) addRange(m *topology, asked *node, r rueidis.RedisMessage, epochs map[string]int64) error {
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
		s.epoch = epochs[idOf(fields[2])]
		i = len(m.shards)
		m.shards = append(m.shards, s)
	}
	for slot := from; slot <= to; slot++ {
		m.owners[slot] = int16(i)
	}
	return nil
}

// idOf returns the ID in an entry of CLUSTER SLOTS, empty if it has none.
func idOf(entry rueidis.RedisMessage) string {
	fields, err := entry.ToArray()
	if err != nil || len(fields) < 3 {
		return ""
	}
	id, _ := fields[2].ToString() // empty if it is none
	return id
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
