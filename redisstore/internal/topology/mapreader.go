package topology

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/redisurl"
)

const (
	// mapPeriod is the time between two reads of the map if nothing has gone wrong.
	mapPeriod = time.Second
	// After Refresh, the time between two reads is at least minMapDelay. It doubles while reads find no change, up to
	// maxUrgentDelay in the first urgentTime, and up to maxMapDelay after that. The first delays are short because a
	// failover takes only some seconds, and a late read would prolong the outage.
	minMapDelay, maxUrgentDelay, maxMapDelay = 25 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond
	urgentTime                               = 10 * time.Second
	// mapTimeout is the time that one server has to respond.
	mapTimeout = 250 * time.Millisecond
	// maxMapServers is the maximum number of servers that are asked for the map in one read.
	maxMapServers = 8
	// A server that is no longer in the map is closed after unusedServerTTL.
	unusedServerTTL = 10 * time.Second
)

// A mapReader is the state of reading the map.
type mapReader struct {
	requests chan struct{} // asks keepMap for a read
	reading  chan struct{} // has an element while the map is read
	// behindSince is the time of the first of the latest reads in which all servers that responded were behind the map.
	// It is zero if the latest read found a server that was not. It may be used only while reading has an element.
	behindSince time.Time
}

func newMapReader() mapReader {
	return mapReader{requests: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
}

// Refresh asks for a new map, without waiting for it.
func (c *Client) Refresh() {
	select {
	case c.mapReader.requests <- struct{}{}:
	default:
	}
}

// keepMap reads the map every second and after Refresh. The delay between reads grows while they find no change, so
// that a fleet of clients does not overload a cluster in trouble.
func (c *Client) keepMap() {
	delay, changedAt := minMapDelay, c.clock.Now()
	unreachable, unreachableSince := 0, time.Time{}
	delayOver := c.clock.NewTimer(0)
	defer delayOver.Stop()
	for {
		// Wait until a read is due, and then until the delay after the last read is over.
		period := c.clock.NewTimer(c.jitter(mapPeriod))
		select {
		case <-c.life.Done(): // the next select returns
		case <-period.C():
			delay, changedAt = minMapDelay, c.clock.Now()
		case <-c.mapReader.requests:
		}
		period.Stop()
		select {
		case <-c.life.Done():
			return
		case <-delayOver.C():
		}
		before := c.current.Load()
		err := c.readMap(c.life, mapTimeout)
		if err != nil && before == nil {
			c.Refresh()
		}
		if err == nil && !c.current.Load().same(before) {
			delay, changedAt = minMapDelay, c.clock.Now()
		}
		// Search for a lost primary even if there are no requests. A guard with an open circuit makes none.
		now := c.current.Load().unreachableCount()
		if now > unreachable {
			unreachableSince = c.clock.Now()
		}
		if unreachable = now; now > 0 && c.clock.Since(unreachableSince) < urgentTime {
			c.Refresh()
		}
		delayOver.Reset(c.jitter(delay))
		limit := maxMapDelay
		if c.clock.Since(changedAt) < urgentTime {
			limit = maxUrgentDelay
		}
		delay = min(2*delay, limit)
	}
}

// readMap reads the map from the sentinels or the cluster. Reads do not overlap, because each result is compared with
// the current map.
func (c *Client) readMap(ctx context.Context, timeout time.Duration) error {
	select {
	case c.mapReader.reading <- struct{}{}:
		defer func() { <-c.mapReader.reading }()
	case <-ctx.Done():
		return unreachableError(c.endpoint.Addrs[0], ctx.Err())
	}
	var err error
	switch c.endpoint.Kind {
	case redisurl.Sentinel:
		err = c.readSentinels(ctx, timeout)
	case redisurl.Cluster:
		err = c.readCluster(ctx, timeout)
	}
	if err != nil {
		c.mapError.Store(&err)
	}
	return err
}

// chooseServers returns up to maxMapServers of the servers to ask for the map, in random order, connected ones first.
// It reorders the slice.
func (c *Client) chooseServers(servers []*Server) []*Server {
	for i := range servers {
		j := c.rand(int64(i + 1))
		servers[i], servers[j] = servers[j], servers[i]
	}
	rank := func(s *Server) int {
		if s.Connected() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(servers, func(a, b *Server) int { return rank(a) - rank(b) })
	return servers[:min(len(servers), maxMapServers)]
}

// newShard returns a shard. addrs has the address of the primary, then those of the replicas. Empty addresses of
// replicas are skipped.
func (c *Client) newShard(name string, addrs []string) (Shard, error) {
	s := Shard{Name: name}
	var err error
	if s.Primary, err = c.Server(addrs[0]); err != nil {
		return s, err
	}
	for _, addr := range addrs[1:] {
		if addr == "" {
			continue
		}
		s.Replicas = append(s.Replicas, addr)
		if c.readReplicas {
			replica, err := c.Server(addr)
			if err != nil {
				return s, err
			}
			s.readable = append(s.readable, replica)
		}
	}
	return s, nil
}

// install makes a map the current one, and closes the connections to servers that are no longer in it.
func (c *Client) install(m *Map) {
	c.current.Store(m)
	keep := make(map[*Server]bool)
	if c.endpoint.Kind == redisurl.Cluster {
		for _, s := range c.seeds {
			keep[s] = true
		}
	}
	var unused []*Server
	c.mu.Lock()
	for _, shard := range m.Shards {
		keep[shard.Primary] = true
		shard.Primary.lastUsed = c.clock.Now()
		for _, addr := range shard.Replicas {
			if s := c.servers[addr]; s != nil {
				keep[s] = true
			}
		}
	}
	for addr, s := range c.servers {
		// Keep a server that was used recently: a redirection may have led to it.
		if !keep[s] && c.clock.Since(s.lastUsed) > unusedServerTTL {
			delete(c.servers, addr)
			unused = append(unused, s)
		}
	}
	c.mu.Unlock()
	for _, s := range unused {
		c.running.Go(func() {
			s.close(&ServerError{Server: s.addr, Problem: "has left the cluster", class: ErrUnreachable})
		})
	}
}
