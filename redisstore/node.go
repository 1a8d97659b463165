package redisstore

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
)

// A node is one server and our one connection to it, on which all calls are pipelined.
//
// The client library would make callers connect, and wait, past their deadline, for whoever is connecting already; and it
// would make them wait for room in its queue when a server hangs, while each that gave up leaves a goroutine behind. So
// there is a gate before it. It is open while the connection works. The keeper, a goroutine, alone connects; until it has,
// callers wait a moment and then fail at once. And no more are let in than there is room for.
type node struct {
	addr     string
	sentinel bool
	client   rueidis.Client
	dialer   dialer
	hang     time.Duration
	log      *slog.Logger

	status atomic.Pointer[status]

	inside  atomic.Int64 // calls let in, with those given up until it is known that their answers are no longer due
	givenUp atomic.Int64 // of these, those given up
	heard   atomic.Int64 // how often something was read
	heardAt atomic.Int64 // when that was, as age tells
	busyAt  atomic.Int64 // when the first of those inside came, likewise
	checked atomic.Int64 // heard, when the last calls began to be given up
	waiting atomic.Int64 // for room
	room    chan struct{}

	counts struct {
		connects, hangs, unanswered, refused, redirects, retries atomic.Int64
	}
	cpu cpuSample // of the last Health

	made   time.Time
	wanted time.Time // last, by the connection

	mu    sync.Mutex
	conn  *watchedConn // nil if there is none
	began time.Time    // conn

	complained bool          // of the server being away, by the keeper
	silent     time.Time     // since then the server has been asked and silent, for all the keeper has seen; zero if it is not
	kick       chan struct{} // wakes the keeper
	stop       context.CancelFunc
	done       chan struct{} // closed when the keeper has ended
}

const (
	// ringScale is for a queue of 1024 calls in the client library, more than a server answers in 10 ms.
	ringScale = 10
	// pingGap is how long a connection may be quiet before the library sees whether it still works.
	pingGap = time.Second
	// bufferSize is that of the buffers for reading and writing. The library's half a megabyte is for large values.
	bufferSize = 64 << 10
)

func newNode(addr string, d dialer, login redisurl.Login, db int, o nodeOptions) (*node, error) {
	now := time.Now()
	n := &node{
		addr: addr, dialer: d, hang: o.hang, log: o.log,
		made: now, wanted: now, room: make(chan struct{}, 1), kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	n.status.Store(&status{err: errNotYet, since: n.wanted, changed: make(chan struct{})})
	option := rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true,
		Username:          login.User,
		Password:          login.Password,
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

// age returns for how long the node has been there, in ns.
func (n *node) age() int64 { return int64(time.Since(n.made)) }

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
	n.reset(err) // the keeper may be waiting for a greeting, and the library would wait for what is still to be answered
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
