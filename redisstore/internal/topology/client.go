package topology

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/redisurl"
)

// A Client sends commands to the servers that have their keys. Create one with New. It is safe for concurrent use.
type Client struct {
	timing
	endpoint      *redisurl.Endpoint
	readReplicas  bool
	retryTime     time.Duration // for commands without a deadline; see defaultRetryTime
	serverOptions serverOptions
	builder       rueidis.Builder

	current   atomic.Pointer[Map]   // nil until the first map was read
	mapError  atomic.Pointer[error] // why the last map could not be read
	mapReader mapReader

	life    context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*Server // by address, without sentinels
	seeds   []*Server          // the servers or sentinels in the URL
	closed  bool
}

// Options are the settings of a Client that the URL does not have.
type Options struct {
	// ReadReplicas lets replicas run read-only commands. Default false.
	ReadReplicas bool
	// Logger receives lost and restored connections. Required.
	Logger *slog.Logger
	// Clock is the clock and the timers of the client. Default clock.System.
	Clock clock.Clock
	// Rand returns a random number below n. It spreads retries. Default math/rand/v2.
	Rand func(n int64) int64
}

// New returns a Client that begins to connect in the background. Close it after use.
func New(e *redisurl.Endpoint, o Options) (*Client, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	c := &Client{
		timing: timing{clock: o.Clock, rand: o.Rand}, endpoint: e, readReplicas: o.ReadReplicas, retryTime: defaultRetryTime,
		serverOptions: serverOptions{
			dialer:      dialer{network: e.Network, timeout: e.DialTimeout, tls: e.TLS},
			hangTimeout: e.HangTimeout, resp2: e.RESP2, log: o.Logger, timing: timing{clock: o.Clock, rand: o.Rand},
		},
		mapReader: newMapReader(),
		servers:   make(map[string]*Server),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	for _, addr := range e.Addrs {
		s, err := c.seed(addr)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.seeds = append(c.seeds, s)
	}
	c.builder = c.seeds[0].client.B()
	if e.Kind == redisurl.Standalone {
		c.current.Store(standaloneMap(c.seeds[0]))
	} else {
		c.running.Go(c.keepMap)
	}
	return c, nil
}

// seed returns a server or sentinel for an address in the URL.
func (c *Client) seed(addr string) (*Server, error) {
	if c.endpoint.Kind != redisurl.Sentinel {
		return c.Server(addr)
	}
	s, err := newServer(addr, c.endpoint.Sentinel, 0, c.serverOptions)
	if err != nil {
		return nil, err
	}
	s.sentinel = true
	s.start()
	return s, nil
}

// Server returns the server at an address, and begins to connect to it if it is new.
func (c *Client) Server(addr string) (*Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.servers[addr]; s != nil {
		s.lastUsed = c.clock.Now()
		return s, nil
	}
	if c.closed {
		return nil, headgate.ErrClosed
	}
	s, err := newServer(addr, c.endpoint.Login, c.endpoint.DB, c.serverOptions)
	if err != nil {
		return nil, err
	}
	s.start()
	c.servers[addr] = s
	return s, nil
}

// Close closes all connections and waits for the goroutines of the client. It may be called twice.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.stop()
	servers := c.servers
	c.servers = nil
	if c.endpoint.Kind == redisurl.Sentinel {
		for _, s := range c.seeds {
			servers["sentinel "+s.addr] = s
		}
	}
	c.mu.Unlock()
	var group sync.WaitGroup
	for _, s := range servers {
		group.Go(func() { s.close(headgate.ErrClosed) })
	}
	group.Wait()
	c.running.Wait()
}

// Connect waits until there is a connection to at least one primary, or until all attempts have failed. If any server
// has a permanent error, Connect returns this error, even if another server is connected.
func (c *Client) Connect(ctx context.Context) error {
	if err := awaitAny(ctx, c.seeds); err != nil {
		return err
	}
	if c.endpoint.Kind == redisurl.Standalone {
		return nil
	}
	if err := c.readMap(ctx, c.endpoint.DialTimeout); err != nil {
		return err
	}
	var primaries []*Server
	for _, shard := range c.current.Load().Shards {
		primaries = append(primaries, shard.Primary)
	}
	return awaitAny(ctx, primaries)
}

func awaitAny(ctx context.Context, servers []*Server) error {
	var failed error
	connected := false
	for _, s := range servers {
		err := s.Await(ctx)
		connected = connected || err == nil
		if IsPermanent(err) || failed == nil {
			failed = err
		}
	}
	if connected && !IsPermanent(failed) {
		return nil
	}
	return failed
}

// Builder returns a builder of commands. A command without a key goes to the server of slot 0.
func (c *Client) Builder() rueidis.Builder { return c.builder }

// Endpoint returns the parsed URL of the client.
func (c *Client) Endpoint() *redisurl.Endpoint { return c.endpoint }

// Clustered reports whether the servers form a cluster.
func (c *Client) Clustered() bool { return c.endpoint.Kind == redisurl.Cluster }

// Do sends a command to the server that has its key. Errors that are not replies of the server are a *ServerError.
func (c *Client) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	// The library reuses a command after its response, so its arguments are copied in case it must be built again.
	var array [40]string
	args := append(array[:0], cmd.Commands()...)
	r, s, result := c.sendFirst(ctx, cmd, false)
	if s == nil {
		return result
	}
	return r.retry(ctx, args, s, result)
}

// DoBuilt is like Do for a command that build can build again. While a slot moves, its keys may be on two servers. If
// sameServer is set, DoBuilt then returns TRYAGAIN instead of waiting for the end of the move.
func (c *Client) DoBuilt(ctx context.Context, build func() rueidis.Completed, sameServer bool) rueidis.RedisResult {
	r, s, result := c.sendFirst(ctx, build(), sameServer)
	if s == nil {
		return result
	}
	retry := build()
	return r.retry(ctx, retry.Commands(), s, result)
}

// sendFirst sends a command once. If it returns a server, the result is an error from this server, and the caller must
// call request.retry. Otherwise the result is final.
func (c *Client) sendFirst(
	ctx context.Context, cmd rueidis.Completed, sameServer bool,
) (r request, s *Server, result rueidis.RedisResult) {
	r = request{client: c, slot: cmd.Slot() & (slots - 1), readOnly: cmd.IsReadOnly(), sameServer: sameServer}
	s, err := r.target()
	if err != nil {
		return r, nil, rueidis.NewErrorResult(err)
	}
	result = r.send(ctx, s, cmd, false)
	if result.Error() == nil {
		return r, nil, result
	}
	return r, s, result
}

// DoMulti sends each command to the server that has its key. Commands for one server are sent together. If a command is
// redirected, later commands may be executed before it.
func (c *Client) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(cmds))
	batches := make(map[*Server][]int)
	requests, args := make([]request, len(cmds)), make([][]string, len(cmds))
	for i, cmd := range cmds {
		args[i] = slices.Clone(cmd.Commands())
		requests[i] = request{client: c, slot: cmd.Slot() & (slots - 1)}
		s, err := requests[i].target()
		if err != nil {
			results[i] = rueidis.NewErrorResult(err)
			continue
		}
		batches[s] = append(batches[s], i)
	}
	send := func(s *Server, batch []int) {
		list := make([]rueidis.Completed, len(batch))
		for j, i := range batch {
			list[j] = cmds[i]
		}
		for j, result := range s.DoMulti(ctx, list...) {
			i := batch[j]
			if result.Error() != nil {
				result = requests[i].retry(ctx, args[i], s, result)
			}
			results[i] = result
		}
	}
	var group sync.WaitGroup
	for s, batch := range batches {
		if len(batches) == 1 {
			send(s, batch)
		} else {
			group.Go(func() { send(s, batch) })
		}
	}
	group.Wait()
	return results
}
