package redisstore

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
)

// readSentinels asks the sentinels who is the primary, and believes it if that server says so too. A sentinel that was cut off
// from the others may not have heard of a failover, and the old primary neither: so at the beginning all are asked, and who
// knows of the latest failover is right, and later none is believed that has not heard of it.
func (c *connection) readSentinels(ctx context.Context, patience time.Duration) error {
	now := c.topology.Load()
	var (
		first error
		best  *topology
	)
	for _, n := range askable(slices.Clone(c.seeds)) {
		m, err := c.primarySeenBy(ctx, n, patience)
		switch {
		case err != nil && (first == nil || lasting(err) && !lasting(first)):
			first = err
		case err != nil:
		case now != nil && m.epoch >= now.epoch:
			c.adopt(m)
			return nil
		case best == nil || m.epoch > best.epoch:
			best = m
		}
		if best != nil {
			patience = min(patience, mapPatience) // to hear the others too
		}
	}
	switch {
	case best == nil:
		return first
	case now == nil || !now.shards[0].primary.up(): // these may be other sentinels at the same addresses
		c.adopt(best)
	}
	return nil
}

func (c *connection) primarySeenBy(ctx context.Context, n *node, patience time.Duration) (*topology, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	master := c.endpoint.Master
	results := n.doMulti(ctx,
		c.builder.SentinelGetMasterAddrByName().Master(master).Build(),
		c.builder.SentinelReplicas().Master(master).Build(),
		c.builder.Arbitrary("SENTINEL", "MASTER").Args(master).Build())
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
			Cure: "give the sentinels' addresses, whose port is " + redisurl.SentinelPort + " as a rule, or want redis:// for a server",
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
	now := c.topology.Load()
	if fields, err := results[2].AsStrMap(); err == nil {
		m.epoch = number(fields, "config-epoch")
	} else if now != nil { // a user may not be allowed to ask
		m.epoch = now.epoch
	}
	if now != nil && now.shards[0].primary == s.primary {
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
