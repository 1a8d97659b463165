package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// A ShardHealth is how one server is. Figures are the server's own since it was started, unless they say otherwise.
type ShardHealth struct {
	// Shard names the server or the primary it follows, as Store.Shard does.
	Shard string
	// Server is its address.
	Server string
	// Primary reports whether it decides. Others are replicas.
	Primary bool
	// Err says why it could not be asked. Only what is ours is known then: the counts from Connects on.
	Err error

	// Version is that of Redis or Valkey.
	Version string
	// Ping is how long it took to answer just now.
	Ping time.Duration
	// CPU is how many cores it used since Health was last asked, -1 the first time.
	CPU float64
	// MemoryUsed is in bytes, MemoryMax what it may use, 0 if it has no bound.
	MemoryUsed, MemoryMax int64
	// OpsPerSecond is as the server measures it.
	OpsPerSecond int64
	// Clients is how many are connected.
	Clients int64
	// Evicted is how many keys were forgotten for want of memory: each a client that starts again.
	Evicted int64
	// Expired is how many keys were forgotten in their time.
	Expired int64
	// Scripts is how many the server knows, ours and others.
	Scripts int64
	// Replicas is how many follow it.
	Replicas int64
	// LagBytes is how far the slowest replica is behind, of a primary, or how far it is behind itself. LagTime is how long
	// the link has been quiet. A failover loses what is behind.
	LagBytes int64
	LagTime  time.Duration
	// LinkDown tells of a replica that it has lost its primary.
	LinkDown bool

	// Connects is how often we have connected to it, Hangs how often it was left alone because it did not answer.
	Connects, Hangs int64
	// Unanswered is how many calls were sent and not answered in time: they may have counted. Refused is how many were
	// not sent because it was away.
	Unanswered, Refused int64
	// Redirects is how many calls it has sent on to another server, Retries how many it was not ready for.
	Redirects, Retries int64

	offset int64 // of what was written or replicated
}

// A cpuSample is the processor time a server had used at a time.
type cpuSample struct {
	sync.Mutex
	at   time.Time
	used float64 // seconds
}

// rate takes a new sample and returns how many cores were used since the last, -1 if there is none.
func (s *cpuSample) rate(at time.Time, used float64) float64 {
	s.Lock()
	defer s.Unlock()
	since, before := at.Sub(s.at).Seconds(), s.used
	first := s.at.IsZero()
	s.at, s.used = at, used
	if first || since <= 0 || used < before { // it was restarted
		return -1
	}
	return (used - before) / since
}

// Health asks all servers how they are, primaries and replicas, and returns them by shard, the primary first. Those that
// cannot be asked have an Err; the error of Health itself says that it is not known which servers there are.
func (s *Store) Health(ctx context.Context) ([]ShardHealth, error) {
	switch {
	case ctx == nil:
		return nil, headgate.ErrNilContext
	case s.closed.Load():
		return nil, headgate.ErrClosed
	}
	c := s.conn
	m := c.topology.Load()
	if m == nil {
		_, err := (&try{c: c}).first()
		return nil, err
	}
	var (
		list  []ShardHealth
		nodes []*node
	)
	for _, shard := range slices.SortedFunc(slices.Values(m.shards), func(a, b shard) int { return strings.Compare(a.name, b.name) }) {
		list, nodes = append(list, ShardHealth{Shard: shard.name, Primary: true}), append(nodes, shard.primary)
		for _, addr := range shard.others {
			n, err := c.node(addr)
			if err != nil {
				return nil, err
			}
			list, nodes = append(list, ShardHealth{Shard: shard.name}), append(nodes, n)
		}
	}
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { list[i].ask(ctx, n, c) })
	}
	group.Wait()
	var primary *ShardHealth
	for i := range list {
		if h := &list[i]; h.Primary {
			primary = h
		} else if primary != nil && primary.Shard == h.Shard && h.Err == nil && primary.Err == nil {
			h.LagBytes = max(0, primary.offset-h.offset)
		}
	}
	return list, nil
}

// ask fills in how a server is.
func (h *ShardHealth) ask(ctx context.Context, n *node, c *connection) {
	h.Server, h.CPU = n.addr, -1
	counts := &n.counts
	h.Connects, h.Hangs = counts.connects.Load(), counts.hangs.Load()
	h.Unanswered, h.Refused = counts.unanswered.Load(), counts.refused.Load()
	h.Redirects, h.Retries = counts.redirects.Load(), counts.retries.Load()
	if h.Err = n.settled(ctx); h.Err != nil {
		return
	}
	before := time.Now()
	if err := n.do(ctx, c.builder.Ping().Build()).Error(); err != nil {
		h.Err = explain(err, n.addr)
		return
	}
	h.Ping = time.Since(before)
	text, err := n.do(ctx, c.builder.Info().Build()).ToString()
	if err != nil {
		h.Err = explain(err, n.addr)
		return
	}
	info := parseInfo(text)
	h.read(info)
	user, _ := strconv.ParseFloat(info["used_cpu_user"], 64)
	system, _ := strconv.ParseFloat(info["used_cpu_sys"], 64)
	h.CPU = n.cpu.rate(time.Now(), user+system)
}

// read fills in what INFO says.
func (h *ShardHealth) read(info map[string]string) {
	h.Version = info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		h.Version = v
	}
	h.MemoryUsed, h.MemoryMax = number(info, "used_memory"), number(info, "maxmemory")
	h.OpsPerSecond, h.Clients = number(info, "instantaneous_ops_per_sec"), number(info, "connected_clients")
	h.Evicted, h.Expired = number(info, "evicted_keys"), number(info, "expired_keys")
	h.Scripts, h.Replicas = number(info, "number_of_cached_scripts"), number(info, "connected_slaves")
	h.Primary = info["role"] == rolePrimary
	h.offset = number(info, "master_repl_offset")
	if !h.Primary {
		h.offset = number(info, "slave_repl_offset")
		h.LinkDown = info["master_link_status"] != "up"
		h.LagTime = time.Duration(number(info, "master_last_io_seconds_ago")) * time.Second
		return
	}
	for i := range h.Replicas {
		replica := pairsOf(info["slave"+strconv.FormatInt(i, 10)])
		if replica["state"] != "online" {
			continue
		}
		h.LagBytes = max(h.LagBytes, h.offset-number(replica, "offset"))
		h.LagTime = max(h.LagTime, time.Duration(number(replica, "lag"))*time.Second)
	}
}

// pairsOf reads name=value,name=value.
func pairsOf(text string) map[string]string {
	pairs := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		pairs[name] = value
	}
	return pairs
}
