package redisstore

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// A connection is all servers of one store, and knows which of them to ask.
//
// A call is sent once. It is sent again only if a server has said that it did nothing: that the key is elsewhere, or that
// it is not ready.
type connection struct {
	endpoint     *redisurl.Endpoint
	readReplicas bool
	trying       time.Duration // see maxTrying
	options      nodeOptions
	log          *slog.Logger
	builder      rueidis.Builder
	major        int // of the servers' version, the lowest; 0 if it was not known when the store was made

	topology atomic.Pointer[topology] // nil until it is known
	why      atomic.Pointer[error]    // it is not
	unfit    atomic.Pointer[error]    // why a server that was away at the start cannot be used now that it is there
	warnings atomic.Pointer[[]Warning]

	wanted  chan struct{}   // asks for a new map
	reading chan struct{}   // has one in it while somebody reads the map
	behind  time.Time       // since then all who answer are behind the map, zero if they are not; for who reads it
	life    context.Context // ends with the connection
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string]*node
	seeds  []*node
	closed bool
}

// newConnection returns a connection that begins to connect.
func newConnection(e *redisurl.Endpoint, o *Options) (*connection, error) {
	c := &connection{
		endpoint: e, readReplicas: o.ReadReplicas, trying: maxTrying, log: o.Logger,
		options: nodeOptions{hang: e.HangTimeout, resp2: e.RESP2, log: o.Logger},
		wanted:  make(chan struct{}, 1),
		reading: make(chan struct{}, 1),
		nodes:   make(map[string]*node),
	}
	c.life, c.end = context.WithCancel(context.Background())
	for _, addr := range e.Addrs {
		n, err := c.seed(addr)
		if err != nil {
			c.close()
			return nil, err
		}
		c.seeds = append(c.seeds, n)
	}
	c.builder = c.seeds[0].client.B()
	if e.Kind == redisurl.Standalone {
		c.topology.Store(lone(c.seeds[0]))
	} else {
		c.running.Go(c.watch)
	}
	return c, nil
}

// seed returns a node for an address from the URL.
func (c *connection) seed(addr string) (*node, error) {
	if c.endpoint.Kind != redisurl.Sentinel {
		return c.node(addr)
	}
	n, err := newNode(addr, c.dialer(), c.endpoint.Sentinel, 0, c.options)
	if err != nil {
		return nil, err
	}
	n.sentinel = true
	n.start()
	return n, nil
}

func (c *connection) dialer() dialer {
	return dialer{network: c.endpoint.Network, timeout: c.endpoint.DialTimeout, tls: c.endpoint.TLS}
}

// node returns the server at an address, and begins to connect to one that is new.
func (c *connection) node(addr string) (*node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[addr]; n != nil {
		n.wanted = time.Now()
		return n, nil
	}
	if c.closed {
		return nil, headgate.ErrClosed
	}
	n, err := newNode(addr, c.dialer(), c.endpoint.Login, c.endpoint.DB, c.options)
	if err != nil {
		return nil, err
	}
	n.start()
	c.nodes[addr] = n
	return n, nil
}

// close ends all that the connection started, and waits for it.
func (c *connection) close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	c.end()
	nodes := c.nodes
	c.nodes = nil
	if c.endpoint.Kind == redisurl.Sentinel {
		for _, n := range c.seeds {
			nodes["sentinel "+n.addr] = n
		}
	}
	c.mu.Unlock()
	var group sync.WaitGroup
	for _, n := range nodes {
		group.Go(func() { n.close(headgate.ErrClosed) })
	}
	group.Wait()
	c.running.Wait()
}

// b returns a builder of commands. A command without a key goes to the server of slot 0.
func (c *connection) b() rueidis.Builder { return c.builder }

// clustered reports whether keys are spread over several servers.
func (c *connection) clustered() bool { return c.endpoint.Kind == redisurl.Cluster }

// do sends a command to the server that has its key. An error in the result that is not the server's reply is explained.
func (c *connection) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	// The library reuses a command once it was answered, so what is needed to build it again is copied.
	var room [40]string
	words := append(room[:0], cmd.Commands()...)
	t, n, result := c.send(ctx, cmd, false)
	if n == nil {
		return result
	}
	return t.again(ctx, words, n, result)
}

// send is do for one who can build the command again: if it returns a server, the result is an error of it, and that is to
// be tried again. If together is set and the keys are on two servers for the moment, as their slot is moving, the result
// will say TRYAGAIN.
func (c *connection) send(ctx context.Context, cmd rueidis.Completed, together bool) (t try, n *node, result rueidis.RedisResult) {
	t = try{c: c, slot: cmd.Slot() & (slots - 1), reads: cmd.IsReadOnly(), together: together}
	n, err := t.first()
	if err != nil {
		return t, nil, rueidis.NewErrorResult(err)
	}
	result = t.send(ctx, n, cmd, false)
	if result.Error() == nil {
		return t, nil, result
	}
	return t, n, result
}

// doMulti sends commands, each to the server that has its key, those for one server at once. Those that a server sends
// elsewhere may overtake others.
func (c *connection) doMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(cmds))
	batches := make(map[*node][]int)
	tries, args := make([]try, len(cmds)), make([][]string, len(cmds))
	for i, cmd := range cmds {
		args[i] = slices.Clone(cmd.Commands())
		tries[i] = try{c: c, slot: cmd.Slot() & (slots - 1)}
		n, err := tries[i].first()
		if err != nil {
			results[i] = rueidis.NewErrorResult(err)
		}
		batches[n] = append(batches[n], i)
	}
	send := func(n *node, batch []int) {
		if n != nil {
			list := make([]rueidis.Completed, len(batch))
			for j, i := range batch {
				list[j] = cmds[i]
			}
			for j, r := range n.doMulti(ctx, list...) {
				results[batch[j]] = r
			}
		}
		for _, i := range batch {
			if results[i].Error() != nil && n != nil {
				results[i] = tries[i].again(ctx, args[i], n, results[i])
			}
		}
	}
	var group sync.WaitGroup
	for n, batch := range batches {
		if len(batches) == 1 {
			send(n, batch)
		} else {
			group.Go(func() { send(n, batch) })
		}
	}
	group.Wait()
	return results
}
