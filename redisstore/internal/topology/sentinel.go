package topology

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

// readSentinels asks the sentinels for the address of the primary. It uses the address only if the server there also
// says that it is a primary. Both a sentinel that was cut off from the others and the old primary may have missed a
// failover. So the first read asks all sentinels and uses the response with the highest epoch. Later reads ignore
// responses with a lower epoch than the current map, unless the current primary is unreachable.
func (c *Client) readSentinels(ctx context.Context, timeout time.Duration) error {
	current := c.current.Load()
	var (
		failure error
		newest  *Map
	)
	for _, sentinel := range c.chooseServers(slices.Clone(c.seeds)) {
		m, err := c.sentinelMapOf(ctx, sentinel, timeout)
		switch {
		case err != nil:
			failure = preferPermanent(failure, err)
		case current != nil && m.epoch >= current.epoch:
			c.install(m)
			return nil
		case newest == nil || m.epoch > newest.epoch:
			newest = m
		}
		if newest != nil {
			timeout = min(timeout, mapTimeout) // there is a usable response, so wait only briefly for others
		}
	}
	switch {
	case newest == nil:
		return failure
	// If the current primary is unreachable, use a lower epoch: the servers may have been set up again at the same
	// addresses.
	case current == nil || !current.Shards[0].Primary.Connected():
		c.install(newest)
	}
	return nil
}

// sentinelMapOf returns the map according to one sentinel.
func (c *Client) sentinelMapOf(ctx context.Context, sentinel *Server, timeout time.Duration) (*Map, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := c.endpoint.Master
	results := sentinel.DoMulti(ctx,
		c.builder.SentinelGetMasterAddrByName().Master(name).Build(),
		c.builder.SentinelReplicas().Master(name).Build(),
		c.builder.Arbitrary("SENTINEL", "MASTER").Args(name).Build())
	addr, err := primaryAddr(results[0], sentinel.addr, name)
	if err != nil {
		return nil, err
	}
	s, err := c.newShard(name, append([]string{addr}, healthyReplicas(results[1])...))
	if err != nil {
		return nil, err
	}
	m := &Map{Shards: []Shard{s}}
	current := c.current.Load()
	if fields, err := results[2].AsStrMap(); err == nil {
		m.epoch = Number(fields, "config-epoch")
	} else if current != nil { // the user may not be allowed to run SENTINEL MASTER
		m.epoch = current.epoch
	}
	if current != nil && current.Shards[0].Primary == s.Primary {
		return m, nil
	}
	if err := s.Primary.Await(ctx); err != nil {
		return nil, err
	}
	role, err := s.Primary.Role(ctx)
	if err != nil {
		return nil, err
	}
	if role != RolePrimary {
		return nil, &ServerError{
			Server: s.Primary.addr, Problem: "is not a primary yet, although the sentinels say so", class: ErrUnreachable,
		}
	}
	return m, nil
}

// primaryAddr reads a sentinel's response to GET-MASTER-ADDR-BY-NAME.
func primaryAddr(result rueidis.RedisResult, sentinel, name string) (string, error) {
	hostPort, err := result.AsStrSlice()
	switch {
	case rueidis.IsRedisNil(err):
		return "", &ServerError{
			Server: sentinel, Problem: "is a sentinel that knows no primary called " + strconv.Quote(name),
			Permanent: true, class: ErrUnreachable,
			Fix: "see SENTINEL MASTERS for the name to put after the hosts of the URL",
		}
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		return "", &ServerError{
			Server: sentinel, Problem: "is not a sentinel", Err: err, Permanent: true, class: ErrUnreachable,
			Fix: "use the addresses of the sentinels, usually with port " + redisurl.SentinelPort +
				", or redis:// for a server",
		}
	case err != nil:
		return "", Explain(err, sentinel)
	case len(hostPort) < 2:
		return "", malformedReply(sentinel, "SENTINEL GET-MASTER-ADDR-BY-NAME", nil)
	}
	return net.JoinHostPort(hostPort[0], hostPort[1]), nil
}

// healthyReplicas returns the addresses of the replicas that a sentinel considers healthy.
func healthyReplicas(result rueidis.RedisResult) []string {
	list, err := result.ToArray()
	if err != nil {
		return nil
	}
	var addrs []string
	for _, entry := range list {
		fields, err := entry.AsStrMap()
		flags := fields["flags"]
		if err == nil && fields["ip"] != "" && !strings.Contains(flags, "down") && !strings.Contains(flags, "disconnected") {
			addrs = append(addrs, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
	slices.Sort(addrs)
	return addrs
}
