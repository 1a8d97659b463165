package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// A node is one server and our one connection to it, on which all calls are pipelined.
//
// The client library would make callers connect, and wait, past their deadline, for whoever is connecting already; and it
// would make them wait for room in its queue when a server hangs, while each that gave up leaves a goroutine behind. So
// there is a gate before it. It is open while the connection works. The keeper, a goroutine, alone connects; until it has,
// callers wait a moment and then fail at once. And no more are let in than there is room for.
type node struct {
	addr   string
	client rueidis.Client
	dialer dialer
	hang   time.Duration
	log    *slog.Logger

	status atomic.Pointer[status]

	inside  atomic.Int64 // calls let in, with those given up until it is known that their answers are no longer due
	givenUp atomic.Int64 // of these, those given up
	heard   atomic.Int64 // how often something was read
	checked atomic.Int64 // heard, when the last calls began to be given up
	waiting atomic.Int64 // for room
	room    chan struct{}

	counts struct {
		connects, hangs, unanswered, refused, redirects, retries atomic.Int64
	}
	cpu cpuSample // of the last Health

	wanted time.Time // last, by the connection

	mu    sync.Mutex
	conn  *watchedConn // nil if there is none
	began time.Time    // conn

	complained bool          // of the server being away, by the keeper
	kick       chan struct{} // wakes the keeper
	stop       context.CancelFunc
	done       chan struct{} // closed when the keeper has ended
}

// A status is what callers see of a connection. One is never changed; another takes its place.
type status struct {
	up      bool
	err     error // why it is not up
	since   time.Time
	tries   int           // to connect that failed since
	changed chan struct{} // closed when another takes its place
}

const (
	// ringScale is for a queue of 1024 calls in the client library, more than a server answers in 10 ms.
	ringScale = 10
	// maxInside leaves room in it for calls of the library itself.
	maxInside = 1<<ringScale - 32
	// hungAfter is how many calls are given up in a row, while nothing is heard of a server, before it counts as hung.
	hungAfter = 64
	// grace is how long callers wait for a connection that was just lost.
	grace = 50 * time.Millisecond
	// The keeper waits between two tries, each time twice as long.
	firstDelay, lastDelay = 10 * time.Millisecond, 500 * time.Millisecond
	// lastingDelay is for what somebody must mend.
	lastingDelay = 5 * time.Second
	// lingering is how long the keeper waits for calls to notice that their connection is gone.
	lingering = 100 * time.Millisecond
	// pingGap is how long a connection may be quiet before the library sees whether it still works.
	pingGap = time.Second
	// bufferSize is that of the buffers for reading and writing. The library's half a megabyte is for large values.
	bufferSize = 64 << 10
)

var (
	errNotYet  = errors.New("not connected yet")
	errDemoted = errors.New("it has become a replica")
	errHangs   = errors.New("several calls in a row were not answered in time")
)

func newNode(addr string, d dialer, login login, db int, o nodeOptions) (*node, error) {
	n := &node{
		addr: addr, dialer: d, hang: o.hang, log: o.log,
		wanted: time.Now(), room: make(chan struct{}, 1), kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	n.status.Store(&status{err: errNotYet, since: n.wanted, changed: make(chan struct{})})
	option := rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true,
		Username:          login.user,
		Password:          login.password,
		SelectDB:          db,
		AlwaysRESP2:       o.resp2,
		ClientSetInfo:     []string{"headgate", "1"},
		DialCtxFn:         n.dial,
		Dialer:            net.Dialer{Timeout: d.timeout, KeepAlive: pingGap},
		ConnWriteTimeout:  o.hang,

		// A call may have counted although its answer was lost, so nothing is ever sent twice.
		DisableRetry: true,
		DisableCache: true,
		// One connection, and always pipelined: when an answer comes, all that were due before have come. A call that
		// runs out of time then leaves the connection to the others.
		PipelineMultiplex:   -1,
		AlwaysPipelining:    true,
		BlockingPipeline:    -1,
		RingScaleEachConn:   ringScale,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
	}
	if !o.resp2 { // where it would be a command of its own, which not every user may run
		option.ClientName = "headgate"
	}
	// This does not connect, as only the keeper may; so there is a client and an error.
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	n.client = client
	return n, nil
}

// nodeOptions are what all nodes have in common.
type nodeOptions struct {
	hang  time.Duration
	resp2 bool
	log   *slog.Logger
}

// start starts the keeper.
func (n *node) start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go n.keep(ctx)
}

// close ends the connection and the keeper, and waits for both. Calls then meet the error.
func (n *node) close(err error) {
	n.stop()
	if !n.up() {
		n.reset(err) // the keeper may be waiting for a greeting
	}
	<-n.done
	n.change(&status{err: err})
	n.client.Close()
}

// do sends a command. The result is the server's, or has an error that is explained.
func (n *node) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	st, err := n.enter(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := n.client.Do(ctx, cmd)
	if err := result.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(n.leaveWith(ctx, st, err))
	}
	n.leave()
	return result
}

// doMulti sends commands at once.
func (n *node) doMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	st, err := n.enter(ctx)
	if err != nil {
		return failed(len(cmds), err)
	}
	results := n.client.DoMulti(ctx, cmds...)
	i := slices.IndexFunc(results, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil })
	if i < 0 {
		n.leave()
		return results
	}
	err = n.leaveWith(ctx, st, results[i].NonRedisError())
	for i, r := range results {
		if r.NonRedisError() != nil {
			results[i] = rueidis.NewErrorResult(err)
		}
	}
	return results
}

func failed(n int, err error) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, n)
	for i := range results {
		results[i] = rueidis.NewErrorResult(err)
	}
	return results
}

// enter lets a call in, or says why not.
func (n *node) enter(ctx context.Context) (*status, error) {
	if err := ctx.Err(); err != nil {
		return nil, n.refuse(err)
	}
	for {
		st := n.status.Load()
		if !st.up {
			if err := n.awaitConnection(ctx, st); err != nil {
				return nil, n.refuse(err)
			}
			continue
		}
		if n.inside.Add(1) > maxInside {
			n.inside.Add(-1)
			if err := n.awaitRoom(ctx, st); err != nil {
				return nil, n.refuse(err)
			}
			continue
		}
		// The keeper connects when nobody is inside, so nobody meets it in the library and waits for it there.
		if n.status.Load() == st {
			return st, nil
		}
		n.release(1)
	}
}

func (n *node) refuse(err error) error {
	n.counts.refused.Add(1)
	if errors.Is(err, headgate.ErrClosed) {
		return err
	}
	if st := n.status.Load(); !st.up && errors.Is(err, context.DeadlineExceeded) {
		err = st.err
	}
	return away(n.addr, err)
}

// awaitConnection waits until a status is no longer the current one.
func (n *node) awaitConnection(ctx context.Context, st *status) error {
	patience := grace - time.Since(st.since)
	if patience <= 0 || errors.Is(st.err, headgate.ErrClosed) || lasting(st.err) {
		return st.err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-st.changed:
		return nil
	case <-timer.C:
		return st.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRoom waits until somebody has left.
func (n *node) awaitRoom(ctx context.Context, st *status) error {
	n.waiting.Add(1)
	defer n.waiting.Add(-1)
	if n.inside.Load() < maxInside {
		return nil
	}
	select {
	case <-n.room:
		if n.inside.Load() < maxInside-1 { // room for two
			n.offerRoom()
		}
		return nil
	case <-st.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *node) release(calls int64) {
	n.inside.Add(-calls)
	if n.waiting.Load() > 0 {
		n.offerRoom()
	}
}

func (n *node) offerRoom() {
	select {
	case n.room <- struct{}{}:
	default:
	}
}

// leave ends a call that was answered. So were all before it, also those given up.
func (n *node) leave() {
	calls := int64(1)
	if n.givenUp.Load() != 0 {
		calls += n.givenUp.Swap(0)
	}
	n.release(calls)
}

// leaveWith ends a call that was not answered, and explains why.
func (n *node) leaveWith(ctx context.Context, st *status, err error) error {
	n.counts.unanswered.Add(1)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// Its place in the queue stays taken until the server answers.
		switch given := n.givenUp.Add(1); {
		case given == 1:
			n.checked.Store(n.heard.Load())
		case given%hungAfter == 0:
			n.doubt(st)
		}
		return explainNetwork(err, n.addr)
	}
	n.leave()
	n.lost(st, err)
	if errors.Is(err, errNotYet) || errors.Is(err, rueidis.ErrClosing) { // the connection was lost on the way here
		return n.refuse(n.status.Load().err)
	}
	return explain(err, n.addr)
}

// doubt is for when many calls were given up in a row. If the server has said something meanwhile, callers are merely in
// a hurry, and the keeper's call will tell when all is answered that they gave up.
func (n *node) doubt(st *status) {
	heard := n.heard.Load()
	if n.checked.Swap(heard) != heard {
		n.wake()
		return
	}
	n.counts.hangs.Add(1)
	n.lost(st, &ServerError{Server: n.addr, What: "hangs", Err: errHangs, Cure: "see its SLOWLOG and its host"})
}

// lost shuts the gate.
func (n *node) lost(st *status, err error) {
	down := &status{err: explain(err, n.addr), since: time.Now(), changed: make(chan struct{})}
	if !st.up || !n.status.CompareAndSwap(st, down) {
		return
	}
	close(st.changed)
	n.wake()
}

// wake has the keeper see to the connection.
func (n *node) wake() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// change sets the status, for the keeper.
func (n *node) change(st *status) {
	st.since, st.changed = time.Now(), make(chan struct{})
	if old := n.status.Swap(st); old.changed != nil {
		close(old.changed)
	}
}

// reset makes the keeper connect anew.
func (n *node) reset(why error) {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if conn != nil {
		conn.why.CompareAndSwap(nil, &why)
		conn.Close()
	}
}

// demoted makes the keeper connect anew, though not all the time, to a server that was the primary and is no more: its
// name may lead to another by now.
func (n *node) demoted() {
	n.mu.Lock()
	fresh := time.Since(n.began) < pingGap
	n.mu.Unlock()
	if !fresh {
		n.reset(errDemoted)
	}
}

// keep keeps the node connected until ctx ends.
func (n *node) keep(ctx context.Context) {
	defer close(n.done)
	delay := firstDelay
	for {
		err := n.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		var wait <-chan time.Time
		if err == nil {
			delay = firstDelay
		} else {
			n.failed(err)
			wait = time.After(delay/2 + rand.N(delay/2))
			delay = min(2*delay, lastDelay)
			if lasting(err) {
				delay = lastingDelay
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-wait:
		case <-n.kick:
		}
	}
}

// connect sees whether the server answers, on the connection there is or a new one, and opens the gate if so.
func (n *node) connect(ctx context.Context) error {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	timeout := n.hang
	if conn == nil {
		n.awaitLeaving()
		timeout = n.dialer.timeout
	}
	var dialing error
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, keeperKey{}, &dialing), timeout)
	defer cancel()
	result := n.client.Do(ctx, n.client.B().Ping().Build())
	if err := result.NonRedisError(); err != nil {
		if dialing != nil { // which says more than that time ran out
			err = dialing
		}
		n.reset(err)
		return explainDial(err, n.addr, n.dialer.tls != nil)
	}
	n.release(n.givenUp.Swap(0))
	if n.up() {
		return nil
	}
	n.change(&status{up: true})
	n.mu.Lock()
	gone := n.conn == nil
	n.mu.Unlock()
	if gone { // already
		n.lost(n.status.Load(), net.ErrClosed)
	}
	if n.complained {
		n.complained = false
		n.log.Info("redis server is back", "server", n.addr)
	}
	return nil
}

// awaitLeaving waits for the calls that are still inside to find that the connection is gone.
func (n *node) awaitLeaving() {
	for deadline := time.Now().Add(lingering); n.inside.Load() > n.givenUp.Load() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	n.inside.Add(-n.givenUp.Swap(0))
}

// failed records why the keeper could not connect.
func (n *node) failed(err error) {
	old := n.status.Load()
	if old.up {
		return
	}
	if !n.complained || old.err.Error() != err.Error() {
		n.complained = true
		n.log.Warn("redis server cannot be reached", "server", n.addr, "error", err)
	}
	next := &status{err: err, since: old.since, tries: old.tries + 1, changed: make(chan struct{})}
	if n.status.CompareAndSwap(old, next) {
		close(old.changed)
	}
}

// settled waits until the keeper has connected or failed to, and returns nil or why.
func (n *node) settled(ctx context.Context) error {
	for {
		st := n.status.Load()
		switch {
		case st.up:
			return nil
		case st.tries > 0 || !errors.Is(st.err, errNotYet):
			return st.err
		}
		select {
		case <-st.changed:
		case <-ctx.Done():
			return away(n.addr, ctx.Err())
		}
	}
}

func (n *node) up() bool { return n.status.Load().up }

// A dialer connects to servers.
type dialer struct {
	network string
	timeout time.Duration
	tls     *tls.Config
}

type keeperKey struct{}

// dial is called by the client library when it wants a connection.
func (n *node) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	failed, ok := ctx.Value(keeperKey{}).(*error)
	if !ok {
		return nil, errNotYet
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, n.dialer.network, addr)
	if err == nil && n.dialer.tls != nil {
		conn, err = handshake(ctx, conn, addr, n.dialer.tls)
	}
	if err != nil {
		*failed = err
		return nil, err
	}
	w := &watchedConn{Conn: conn, node: n}
	n.mu.Lock()
	n.conn, n.began = w, time.Now()
	n.mu.Unlock()
	n.counts.connects.Add(1)
	return w, nil
}

func handshake(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" && !config.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// A watchedConn tells its node when the client library gives it up.
type watchedConn struct {
	net.Conn
	node *node
	why  atomic.Pointer[error] // it was given up
}

func (w *watchedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.why.CompareAndSwap(nil, &err)
	} else {
		w.node.heard.Add(1)
	}
	return n, err
}

func (w *watchedConn) Close() error {
	n := w.node
	n.mu.Lock()
	mine := n.conn == w
	if mine {
		n.conn = nil
	}
	n.mu.Unlock()
	if mine {
		why := error(net.ErrClosed)
		if p := w.why.Load(); p != nil {
			why = *p
		}
		n.lost(n.status.Load(), why)
	}
	return w.Conn.Close()
}

// ringSizeCheck fails to compile if the queue of the library is not larger than what is let in.
var _ = [1]struct{}{}[bits.Len(maxInside)-ringScale]
