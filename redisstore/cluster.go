package redisstore

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

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
