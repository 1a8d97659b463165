package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// A connection is all servers of one store, and knows which of them to ask.
//
// A call is sent once. It is sent again only if a server has said that it did nothing: that the key is elsewhere, or that
// it is not ready.
type connection struct {
	endpoint     *endpoint
	readReplicas bool
	options      nodeOptions
	log          *slog.Logger
	builder      rueidis.Builder
	major        int // of the servers' version, the lowest; 0 if it was not known when the store was made

	topology atomic.Pointer[topology] // nil until it is known
	why      atomic.Pointer[error]    // it is not
	warnings atomic.Pointer[[]Warning]

	wanted  chan struct{}   // asks for a new map
	life    context.Context // ends with the connection
	end     context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	nodes  map[string]*node
	seeds  []*node
	closed bool
}

// newConnection returns a connection that begins to connect.
func newConnection(e *endpoint, o *Options) (*connection, error) {
	c := &connection{
		endpoint: e, readReplicas: o.ReadReplicas, log: o.Logger,
		options: nodeOptions{hang: e.hangTimeout, resp2: e.resp2, log: o.Logger},
		wanted:  make(chan struct{}, 1),
		nodes:   make(map[string]*node),
	}
	c.life, c.end = context.WithCancel(context.Background())
	for _, addr := range e.addrs {
		n, err := c.seed(addr)
		if err != nil {
			c.close()
			return nil, err
		}
		c.seeds = append(c.seeds, n)
	}
	c.builder = c.seeds[0].client.B()
	if e.kind == standalone {
		c.topology.Store(lone(c.seeds[0]))
	} else {
		c.running.Go(c.watch)
	}
	return c, nil
}

// seed returns a node for an address from the URL.
func (c *connection) seed(addr string) (*node, error) {
	if c.endpoint.kind != sentinel {
		return c.node(addr)
	}
	n, err := newNode(addr, c.dialer(), c.endpoint.sentinel, 0, c.options)
	if err == nil {
		n.start()
	}
	return n, err
}

func (c *connection) dialer() dialer {
	return dialer{network: c.endpoint.network, timeout: c.endpoint.dialTimeout, tls: c.endpoint.tls}
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
	n, err := newNode(addr, c.dialer(), c.endpoint.login, c.endpoint.db, c.options)
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
	if c.endpoint.kind == sentinel {
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

// clustered tells whether keys are spread over several servers.
func (c *connection) clustered() bool { return c.endpoint.kind == cluster }

// do sends a command to the server that has its key. An error in the result that is not the server's reply is explained.
func (c *connection) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	var room [40]string
	t := try{c: c, slot: cmd.Slot() & (slots - 1), reads: cmd.IsReadOnly()}
	// The library reuses a command once it was answered, so what is needed to build it again is copied.
	t.args = append(room[:0], cmd.Commands()...)
	n, err := t.first()
	if err != nil {
		return t.again(ctx, nil, rueidis.NewErrorResult(err))
	}
	result := t.send(ctx, n, cmd, false)
	if result.Error() == nil {
		return result
	}
	return t.again(ctx, n, result)
}

// doMulti sends commands, each to the server that has its key, those for one server at once. Those that a server sends
// elsewhere may overtake others.
func (c *connection) doMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(cmds))
	batches := make(map[*node][]int)
	tries := make([]try, len(cmds))
	for i, cmd := range cmds {
		tries[i] = try{c: c, slot: cmd.Slot() & (slots - 1), args: slices.Clone(cmd.Commands())}
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
			if results[i].Error() != nil {
				results[i] = tries[i].again(ctx, n, results[i])
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

// A try is a command on its way to the server that has its key.
type try struct {
	c     *connection
	args  []string
	slot  uint16
	reads bool
}

const (
	// maxHops is how often a call is sent on before it waits for the servers to agree.
	maxHops = 5
	// A call that a server is not ready for is tried again after a while, which doubles each time.
	firstPause, lastPause = time.Millisecond, 32 * time.Millisecond
	// maxTrying is for how long a call is tried that has no deadline.
	maxTrying = 5 * time.Second
)

// first returns the server to ask first.
func (t *try) first() (*node, error) {
	m := t.c.topology.Load()
	if m == nil {
		why := error(errNotYet)
		if p := t.c.why.Load(); p != nil {
			why = *p
		}
		return nil, away(t.c.endpoint.addrs[0], why)
	}
	if t.reads && t.c.readReplicas {
		if n := m.replica(t.slot); n != nil {
			return n, nil
		}
	}
	n := m.primary(t.slot)
	if n == nil {
		t.c.refresh()
		return nil, &ServerError{
			Server: "the cluster at " + t.c.endpoint.addrs[0], What: "has no server for some keys", class: ErrAway,
			Cure: "see CLUSTER SLOTS: every slot needs a primary",
		}
	}
	return n, nil
}

// build makes the command anew.
func (t *try) build() rueidis.Completed {
	cmd := t.c.builder.Arbitrary(t.args[0]).Args(t.args[1:]...)
	if t.reads {
		return cmd.ReadOnly()
	}
	return cmd.Build()
}

// again makes of a result that is an error what can be made of it: it follows where a server points, and waits for one
// that is not ready.
func (t *try) again(ctx context.Context, n *node, result rueidis.RedisResult) rueidis.RedisResult {
	pause, hops := firstPause, 0
	var end time.Time
	for {
		if result.NonRedisError() != nil {
			return t.broken(ctx, n, result)
		}
		err := result.Error()
		if err == nil || rueidis.IsRedisNil(err) {
			return result
		}
		target, verdict := t.read(n, err)
		switch verdict {
		case final:
			return result
		case elsewhere, asking:
			n.counts.redirects.Add(1)
			t.c.refresh()
			if hops++; hops > maxHops {
				break
			}
			if n, err = t.c.node(target); err != nil {
				return rueidis.NewErrorResult(err)
			}
			result = t.send(ctx, n, t.build(), verdict == asking)
			continue
		case notReady:
			n.counts.retries.Add(1)
			t.c.refresh()
		}
		if end.IsZero() {
			end = time.Now().Add(maxTrying)
		}
		if !sleep(ctx, pause, end) {
			return result
		}
		pause, hops = min(2*pause, lastPause), 0
		first, err := t.first()
		if err != nil {
			return result
		}
		n = first
		result = t.send(ctx, n, t.build(), false)
	}
}

// broken returns what to answer when a server did not. Only a look that was sent to a replica is sent again, to the
// primary.
func (t *try) broken(ctx context.Context, n *node, result rueidis.RedisResult) rueidis.RedisResult {
	if n == nil || ctx.Err() != nil || errors.Is(result.NonRedisError(), headgate.ErrClosed) {
		return result
	}
	t.c.refresh()
	if !t.asReplica(n) {
		return result
	}
	t.reads = false
	primary, err := t.first()
	if err != nil {
		return result
	}
	return t.again(ctx, primary, t.send(ctx, primary, t.build(), false))
}

// send sends the command to a server.
func (t *try) send(ctx context.Context, n *node, cmd rueidis.Completed, asking bool) rueidis.RedisResult {
	switch {
	case asking:
		return n.doMulti(ctx, t.c.builder.Asking().Build(), cmd)[1]
	case t.c.endpoint.kind == cluster && t.asReplica(n):
		return n.doMulti(ctx, t.c.builder.Readonly().Build(), cmd)[1]
	default:
		return n.do(ctx, cmd)
	}
}

// asReplica tells whether a server is asked in the place of the primary.
func (t *try) asReplica(n *node) bool {
	if !t.reads || !t.c.readReplicas {
		return false
	}
	m := t.c.topology.Load()
	return m != nil && m.primary(t.slot) != n
}

// sleep waits a while, unless that would be past the end or the deadline.
func sleep(ctx context.Context, pause time.Duration, end time.Time) bool {
	pause = pause/2 + rand.N(pause/2)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	if time.Until(end) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A verdict is what to do about an error reply.
type verdict uint8

const (
	final     verdict = iota // it is the answer
	elsewhere                // ask another server
	asking                   // ask another server, with ASKING before
	notReady                 // ask again later
)

// read returns what to do about an error reply, and the server that it points to. All but final are replies of a server
// that did nothing.
func (t *try) read(n *node, err error) (string, verdict) {
	word, rest, _ := strings.Cut(replyText(err), " ")
	switch word {
	case "LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN":
		return "", notReady
	case "READONLY":
		// It was the primary. Where sentinels or the cluster know who is now, so will we soon; else its name may lead
		// elsewhere by now.
		if t.c.endpoint.kind != standalone {
			return "", notReady
		}
		n.demoted()
	case "MOVED", "ASK":
		if t.c.endpoint.kind != cluster {
			return "", final
		}
		_, addr, _ := strings.Cut(rest, " ")
		addr, ok := pointed(addr, n.addr)
		if !ok {
			return "", final
		}
		if word == "ASK" {
			return addr, asking
		}
		return addr, elsewhere
	}
	return "", final
}

// pointed completes the address in a redirection. It may have no host, which stands for that of the server that said so.
func pointed(addr, from string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	if host == "?" || host == "" || port == "" {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
