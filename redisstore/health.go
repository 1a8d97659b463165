package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// A ShardHealth is the state of one server. Figures of the server are counted from its start, unless a comment says
// otherwise.
type ShardHealth struct {
	// Shard is the name of the shard, as returned by Store.Shard.
	Shard string
	// Server is the address of the server.
	Server string
	// Primary reports whether the server is a primary. All other servers are replicas.
	Primary bool
	// Slots is the number of slots that a primary owns in a cluster. It is 0 for other servers.
	Slots int
	// Err says why the server did not report. If it is set, all following figures except Counts are unknown.
	Err error

	// Version is the version of Redis or Valkey.
	Version string
	// Ping is the round-trip time of a PING by this call of Health.
	Ping time.Duration
	// CPU is how many cores the server has used since the last call of Health, or -1 after the first call.
	CPU float64
	// MemoryUsed and MemoryMax are in bytes. MemoryMax is 0 if the server's memory is not limited.
	MemoryUsed, MemoryMax int64
	// NetworkIn and NetworkOut are the bytes that the server has received and sent.
	NetworkIn, NetworkOut int64
	// OpsPerSecond is the number of commands per second, as measured by the server.
	OpsPerSecond int64
	// Clients is the number of connected clients.
	Clients int64
	// Evicted is the number of keys that the server has deleted for lack of memory. The consumption under such a key is
	// lost.
	Evicted int64
	// Expired is the number of keys that the server has deleted after their TTL.
	Expired int64
	// Scripts is the number of cached scripts, including those of other programs.
	Scripts int64
	// Replicas is the number of connected replicas.
	Replicas int64
	// LagBytes is how far a replica is behind its primary. For a primary it is that of its slowest replica. A failover to
	// the replica loses these bytes. LagTime is the time since the last replication traffic.
	LagBytes int64
	LagTime  time.Duration
	// LinkDown reports whether a replica has lost its primary.
	LinkDown bool

	// Counts are figures about this store's own calls to the server.
	Counts

	offset int64 // position in the replication stream, in bytes
	cpu    cpuSample
}

// Counts are figures about the calls of this store to one server.
type Counts = topology.Counts

// A cpuSample is the CPU time that a server has used until a time.
type cpuSample struct {
	at      time.Time
	seconds float64
	cores   float64 // cores used between the sample before and this one, or -1
}

// coresSince returns how many cores were used since an earlier sample, or -1 if there is none.
func (s cpuSample) coresSince(before cpuSample) float64 {
	elapsed := s.at.Sub(before.at).Seconds()
	restarted := s.seconds < before.seconds
	if before.at.IsZero() || elapsed <= 0 || restarted {
		return -1
	}
	return (s.seconds - before.seconds) / elapsed
}

// cpuSamples are the samples of the last call of Health, by server.
type cpuSamples struct {
	mu       sync.Mutex
	byServer map[string]cpuSample
}

// update sets the CPU of each server, and keeps the samples for the next call.
func (c *cpuSamples) update(list []ShardHealth) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := make(map[string]cpuSample, len(list))
	for i := range list {
		h := &list[i]
		before := c.byServer[h.Server]
		if h.cpu.at.IsZero() { // the server did not report
			latest[h.Server] = before
			continue
		}
		h.cpu.cores = h.cpu.coresSince(before)
		if h.cpu.at.Equal(before.at) { // the same report again, which SharedHealth has read from Redis
			h.cpu.cores = before.cores
		}
		h.CPU = h.cpu.cores
		latest[h.Server] = h.cpu
	}
	c.byServer = latest
}

// Health asks all servers for their state. It returns the servers ordered by shard, with the primary of each shard
// first. Err is set for servers that did not report. Health itself fails if the servers are not known.
func (s *Store) Health(ctx context.Context) ([]ShardHealth, error) { return s.health(ctx, s.info) }

// An infoReader returns the reply of a server to INFO.
type infoReader func(context.Context, *topology.Server) (string, error)

// health implements Health and SharedHealth, which read the reports of servers in different ways.
func (s *Store) health(ctx context.Context, read infoReader) ([]ShardHealth, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	m, err := s.client.Map()
	if err != nil {
		return nil, err
	}
	var (
		list    []ShardHealth
		servers []*topology.Server
	)
	slots := make(map[string]int, len(m.Shards))
	for i, n := range m.SlotsOf() {
		slots[m.Shards[i].Name] = n
	}
	byName := func(a, b topology.Shard) int { return strings.Compare(a.Name, b.Name) }
	for _, shard := range slices.SortedFunc(slices.Values(m.Shards), byName) {
		primary := ShardHealth{Shard: shard.Name, Primary: true, Slots: slots[shard.Name]}
		list, servers = append(list, primary), append(servers, shard.Primary)
		for _, addr := range shard.Replicas {
			server, err := s.client.Server(addr)
			if err != nil {
				return nil, err
			}
			list, servers = append(list, ShardHealth{Shard: shard.Name}), append(servers, server)
		}
	}
	var group sync.WaitGroup
	for i, server := range servers {
		group.Go(func() { s.readHealth(ctx, server, read, &list[i]) })
	}
	group.Wait()
	s.servers.cpu.update(list)
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

// readHealth asks a server for its state.
func (s *Store) readHealth(ctx context.Context, server *topology.Server, read infoReader, h *ShardHealth) {
	h.Server, h.CPU, h.Counts = server.Addr(), -1, server.Counts()
	if h.Err = server.Await(ctx); h.Err != nil {
		return
	}
	before := s.clock.Now()
	if err := server.Do(ctx, s.client.Builder().Ping().Build()).Error(); err != nil {
		h.Err = topology.Explain(err, server.Addr())
		return
	}
	h.Ping = s.clock.Since(before)
	text, err := read(ctx, server)
	if err != nil {
		h.Err = topology.Explain(err, server.Addr())
		return
	}
	h.cpu.at = s.clock.Now()
	h.readInfo(topology.ParseInfo(text))
}

// readInfo fills in the fields of INFO.
func (h *ShardHealth) readInfo(info map[string]string) {
	number := func(name string) int64 { return topology.Number(info, name) }
	h.Version = cmp.Or(info["valkey_version"], info["redis_version"])
	h.MemoryUsed, h.MemoryMax = number("used_memory"), number("maxmemory")
	h.OpsPerSecond, h.Clients = number("instantaneous_ops_per_sec"), number("connected_clients")
	h.NetworkIn, h.NetworkOut = number("total_net_input_bytes"), number("total_net_output_bytes")
	h.Evicted, h.Expired = number("evicted_keys"), number("expired_keys")
	h.Scripts, h.Replicas = number("number_of_cached_scripts"), number("connected_slaves")
	user, _ := strconv.ParseFloat(info["used_cpu_user"], 64)
	system, _ := strconv.ParseFloat(info["used_cpu_sys"], 64)
	h.cpu.seconds = user + system
	if micros := number("server_time_usec"); micros > 0 { // Redis 6 does not send it
		h.cpu.at = time.UnixMicro(micros)
	}
	h.Primary = info["role"] == topology.RolePrimary
	h.offset = number("master_repl_offset")
	if !h.Primary {
		h.offset = number("slave_repl_offset")
		h.LinkDown = info["master_link_status"] != "up"
		h.LagTime = time.Duration(number("master_last_io_seconds_ago")) * time.Second
		return
	}
	for i := range h.Replicas {
		replica := parsePairs(info["slave"+strconv.FormatInt(i, 10)])
		if replica["state"] != "online" {
			continue
		}
		h.LagBytes = max(h.LagBytes, h.offset-topology.Number(replica, "offset"))
		h.LagTime = max(h.LagTime, time.Duration(topology.Number(replica, "lag"))*time.Second)
	}
}

// parsePairs parses name=value,name=value.
func parsePairs(text string) map[string]string {
	pairs := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		pairs[name] = value
	}
	return pairs
}
