package topology

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

// maxBehind is how long all servers that respond may be behind the current map. It is longer than the time in which all
// servers of a cluster learn of a change.
const maxBehind = 2 * time.Second

// readCluster asks servers of the cluster for the map until one is not behind the current map.
func (c *Client) readCluster(ctx context.Context, timeout time.Duration) error {
	c.mu.Lock()
	servers := slices.Collect(maps.Values(c.servers))
	c.mu.Unlock()
	current := c.current.Load()
	var (
		failure error
		behind  *Map
	)
	for _, s := range c.chooseServers(servers) {
		m, err := c.clusterMapOf(ctx, s, timeout)
		switch {
		case err != nil:
			failure = preferPermanent(failure, err)
		case m.isBehind(current):
			behind = m
		default:
			c.mapReader.behindSince = time.Time{}
			c.install(m)
			return nil
		}
	}
	switch since := c.mapReader.behindSince; {
	case behind == nil && failure == nil: // there was no server to ask
		return headgate.ErrClosed
	case behind == nil:
		return failure
	case since.IsZero(): // servers with the current map may be busy
		c.mapReader.behindSince = c.clock.Now()
	case c.clock.Since(since) > maxBehind: // this is another cluster at the same addresses
		c.mapReader.behindSince = time.Time{}
		c.install(behind)
	}
	return nil
}

// isBehind reports whether the server that sent the map m has missed a change in the current map: in the current map, a
// slot has another owner with a higher epoch. Servers of a cluster use the same rule to decide which of two servers
// owns a slot. isBehind does not use the cluster's current epoch: it grows when an election begins, and servers learn
// this before they learn the result of the election.
//
// If the user may not read the epochs, they are all 0. Then m is behind if, for some slot, the owner in m is not
// connected and the owner in the current map is.
func (m *Map) isBehind(current *Map) bool {
	if current == nil {
		return false
	}
	for slot := range max(len(m.owners), len(current.owners)) {
		shard, knownShard := m.shard(uint16(slot)), current.shard(uint16(slot))
		switch {
		case knownShard == nil:
		case shard == nil || shard.epoch < knownShard.epoch:
			return true
		case shard.epoch == knownShard.epoch && knownShard.Primary.Connected() && !shard.Primary.Connected():
			return true
		}
	}
	return false
}

// clusterMapOf returns the map of the cluster according to one server.
func (c *Client) clusterMapOf(ctx context.Context, s *Server, timeout time.Duration) (*Map, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	results := s.DoMulti(ctx, c.builder.ClusterNodes().Build(), c.builder.ClusterSlots().Build())
	m := &Map{owners: make([]int16, slots)}
	for i := range m.owners {
		m.owners[i] = -1
	}
	var epochs map[string]int64
	if text, err := results[0].ToString(); err == nil { // the user may not be allowed to run CLUSTER NODES
		epochs = clusterEpochs(text)
	}
	ranges, err := results[1].ToArray()
	if err != nil {
		return nil, Explain(err, s.addr)
	}
	for _, r := range ranges {
		if err := c.addSlotRange(m, s, r, epochs); err != nil {
			return nil, err
		}
	}
	if len(m.Shards) == 0 {
		return nil, &ServerError{
			Server: s.addr, Problem: "is part of a cluster without slots", class: ErrUnreachable,
			Fix: "create the cluster: redis-cli --cluster create",
		}
	}
	return m, nil
}

// clusterEpochs returns the configuration epochs in a response to CLUSTER NODES, by server ID. Each line of the
// response is ID ADDRESS FLAGS PRIMARY PING PONG EPOCH LINK SLOT….
func clusterEpochs(text string) map[string]int64 {
	epochs := make(map[string]int64)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 6 {
			epochs[fields[0]], _ = strconv.ParseInt(fields[6], 10, 64) // 0 if it is not a number
		}
	}
	return epochs
}

// addSlotRange adds an entry of CLUSTER SLOTS to a map: first slot, last slot, primary, replicas.
func (c *Client) addSlotRange(m *Map, sender *Server, entry rueidis.RedisMessage, epochs map[string]int64) error {
	const command = "CLUSTER SLOTS"
	fields, err := entry.ToArray()
	if err != nil || len(fields) < 3 {
		return malformedReply(sender.addr, command, err)
	}
	first, err1 := fields[0].AsInt64()
	last, err2 := fields[1].AsInt64()
	if err := errors.Join(err1, err2); err != nil || first < 0 || last >= slots || first > last {
		return malformedReply(sender.addr, command, err)
	}
	var addrs []string
	for _, field := range fields[2:] {
		addr, err := slotServerAddr(field, sender.addr)
		if err != nil {
			return malformedReply(sender.addr, command, err)
		}
		addrs = append(addrs, addr)
	}
	if addrs[0] == "" {
		return nil
	}
	i := slices.IndexFunc(m.Shards, func(s Shard) bool { return s.Name == addrs[0] })
	if i < 0 {
		s, err := c.newShard(addrs[0], addrs)
		if err != nil {
			return err
		}
		s.epoch = epochs[slotServerID(fields[2])]
		i = len(m.Shards)
		m.Shards = append(m.Shards, s)
	}
	for slot := first; slot <= last; slot++ {
		m.owners[slot] = int16(i)
	}
	return nil
}

// slotServerID returns the server ID in an entry of CLUSTER SLOTS, or "".
func slotServerID(entry rueidis.RedisMessage) string {
	fields, err := entry.ToArray()
	if err != nil || len(fields) < 3 {
		return ""
	}
	id, _ := fields[2].ToString() // "" if it is not a string
	return id
}

// slotServerAddr returns the address of a server in an entry of CLUSTER SLOTS, or "" if the server is unreachable.
func slotServerAddr(entry rueidis.RedisMessage, sender string) (string, error) {
	fields, err := entry.ToArray()
	if err != nil {
		return "", err
	}
	if len(fields) < 2 {
		return "", errors.New("a server without an address")
	}
	host, err := fields[0].ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return "", err
	}
	port, err := fields[1].AsInt64()
	if err != nil {
		return "", err
	}
	addr, _ := redirectionAddr(net.JoinHostPort(host, strconv.FormatInt(port, 10)), sender)
	return addr, nil
}
