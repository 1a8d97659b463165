package topology

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
)

// A Server is one Redis server with one connection, on which all commands are pipelined.
//
// Without a Server, the client library would let the first caller connect. Other callers would wait for this
// connection, or for room in the library's queue while a server hangs, even after their deadline. Each caller that
// gives up would leave a goroutine behind. So a call must first enter the Server. Calls can enter only while the
// connection works, and only as many as the queue has room for (see calls.go). Only the Server's own goroutine connects
// (see connector.go).
type Server struct {
	addr     string
	sentinel bool
	options  serverOptions
	client   rueidis.Client

	created  time.Time
	lastUsed time.Time // when the server was last in a map or a redirection; guarded by Client.mu

	status    atomic.Pointer[status]
	calls     calls
	replies   replies
	link      link
	connector connector
	counts    counters
}

// serverOptions are the settings that all servers of a client share.
type serverOptions struct {
	dialer      dialer
	hangTimeout time.Duration
	resp2       bool
	log         *slog.Logger
	timing
}

// counters are the figures behind Counts.
type counters struct {
	connects, hangs, unanswered, refused, redirects, retries atomic.Int64
}

// Counts are figures about one server since the client was created.
type Counts struct {
	// Connects is how often the client connected to the server, and Hangs how often it stopped calling the server because
	// it did not respond.
	Connects, Hangs int64
	// Unanswered is the number of calls that were sent and got no response in time. They may have counted.
	Unanswered int64
	// Refused is the number of calls that were not sent, because the server was unreachable.
	Refused int64
	// Redirects is the number of calls that the server redirected to another one.
	Redirects int64
	// Retries is the number of calls that the server was not ready for.
	Retries int64
}

const (
	// queueScale makes the library's queue hold 1024 calls, more than a server executes in 10 ms.
	queueScale = 10
	// pingInterval is the time after which the library checks whether a quiet connection still works.
	pingInterval = time.Second
	// bufferSize is the size of read and write buffers. The library's default of 512 KiB is for large values.
	bufferSize = 64 << 10
)

func newServer(addr string, login redisurl.Login, db int, o serverOptions) (*Server, error) {
	now := o.clock.Now()
	s := &Server{
		addr: addr, options: o, created: now, lastUsed: now,
		calls: newCalls(), connector: newConnector(),
	}
	s.status.Store(&status{err: errNotConnected, since: now, changed: make(chan struct{})})
	option := rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true,
		Username:          login.User,
		Password:          login.Password,
		SelectDB:          db,
		AlwaysRESP2:       o.resp2,
		ClientSetInfo:     []string{"headgate", "1"},
		DialCtxFn:         s.dial,
		Dialer:            net.Dialer{Timeout: o.dialer.timeout, KeepAlive: pingInterval},
		ConnWriteTimeout:  o.hangTimeout,

		// A call may have counted although its response was lost, so nothing is ever sent twice.
		DisableRetry: true,
		DisableCache: true,
		// With one connection that is always pipelined, a response proves that all earlier responses have arrived, and a
		// call that runs out of time leaves the connection to the others.
		PipelineMultiplex:   -1,
		AlwaysPipelining:    true,
		BlockingPipeline:    -1,
		RingScaleEachConn:   queueScale,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
	}
	if !o.resp2 { // with RESP2, setting the name needs a command that not every user may run
		option.ClientName = "headgate"
	}
	// NewClient cannot connect here, since only the connector may. So it returns a client and an error.
	client, err := rueidis.NewClient(option)
	if client == nil {
		return nil, err
	}
	s.client = client
	return s, nil
}

// age returns the time since the server was created, in ns.
func (s *Server) age() int64 { return int64(s.options.clock.Since(s.created)) }

// timeAt returns the time at which the server had an age.
func (s *Server) timeAt(age int64) time.Time { return s.created.Add(time.Duration(age)) }

// start starts the connector.
func (s *Server) start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.connector.stop = cancel
	go s.keepConnected(ctx)
}

// close closes the connection, stops the connector, and waits for both. Later calls fail with err.
func (s *Server) close(err error) {
	s.connector.stop()
	s.dropConnection(err) // the connector may be in a login, and the library waits for responses
	<-s.connector.done
	s.setStatus(&status{err: err})
	s.client.Close()
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return s.addr }

// Counts returns figures about the server.
func (s *Server) Counts() Counts {
	c := &s.counts
	return Counts{
		Connects: c.connects.Load(), Hangs: c.hangs.Load(), Unanswered: c.unanswered.Load(), Refused: c.refused.Load(),
		Redirects: c.redirects.Load(), Retries: c.retries.Load(),
	}
}

// Do sends a command. Errors that are not replies of the server are a *ServerError.
func (s *Server) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	st, err := s.enter(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := s.client.Do(ctx, cmd)
	if err := result.NonRedisError(); err != nil {
		return rueidis.NewErrorResult(s.leaveFailed(ctx, st, err))
	}
	s.leave()
	return result
}

// DoMulti sends several commands together.
func (s *Server) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	st, err := s.enter(ctx)
	if err != nil {
		results := make([]rueidis.RedisResult, len(cmds))
		for i := range results {
			results[i] = rueidis.NewErrorResult(err)
		}
		return results
	}
	results := s.client.DoMulti(ctx, cmds...)
	i := slices.IndexFunc(results, func(r rueidis.RedisResult) bool { return r.NonRedisError() != nil })
	if i < 0 {
		s.leave()
		return results
	}
	err = s.leaveFailed(ctx, st, results[i].NonRedisError())
	for i, r := range results {
		if r.NonRedisError() != nil {
			results[i] = rueidis.NewErrorResult(err)
		}
	}
	return results
}

// The roles of a server, as ROLE and INFO name them.
const (
	RolePrimary = "master"
	RoleReplica = "slave"
)

// Role asks a server for its role. A server that refuses ROLE to the user counts as a primary.
func (s *Server) Role(ctx context.Context) (string, error) {
	fields, err := s.Do(ctx, s.client.B().Role().Build()).ToArray()
	if err != nil {
		if strings.HasPrefix(err.Error(), "NOPERM") {
			return RolePrimary, nil
		}
		return "", Explain(err, s.addr)
	}
	if len(fields) == 0 {
		return "", malformedReply(s.addr, "ROLE", nil)
	}
	role, err := fields[0].ToString()
	if err != nil {
		return "", malformedReply(s.addr, "ROLE", err)
	}
	return role, nil
}
