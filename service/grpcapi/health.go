package grpcapi

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A healthServer ends those who watch when the server stops, after they were told that it does: they would watch for ever, and
// the server wait for them. A connection may watch maxWatches times, since a watch that nothing happens on has no end.
type healthServer struct {
	*health.Server
	stopping context.Context //nolint:containedctx // it is the server's

	mu      sync.Mutex
	watches map[net.Addr]int // by connection
}

// maxWatches is how many services a client would watch on one connection.
const maxWatches = 16

var errWatches = status.Error(codes.ResourceExhausted, "a connection may watch 16 times")

func newHealthServer(s *health.Server, stopping context.Context) *healthServer { //nolint:revive // it is kept
	return &healthServer{Server: s, stopping: stopping, watches: map[net.Addr]int{}}
}

// begin counts a watch of a connection, and tells whether there may be another.
func (h *healthServer) begin(of net.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[of] >= maxWatches {
		return false
	}
	h.watches[of]++
	return true
}

func (h *healthServer) end(of net.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[of]--; h.watches[of] == 0 {
		delete(h.watches, of)
	}
}

func (h *healthServer) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	if p, ok := peer.FromContext(stream.Context()); ok {
		if !h.begin(p.Addr) {
			return errWatches
		}
		defer h.end(p.Addr)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	w := &watcher{Health_WatchServer: stream, ctx: ctx, cancel: cancel, stopping: h.stopping}
	defer context.AfterFunc(h.stopping, w.stop)()
	err := h.Server.Watch(r, w)
	if h.stopping.Err() != nil {
		return errStopping
	}
	return err
}

// A watcher is one who watches.
type watcher struct {
	grpc_health_v1.Health_WatchServer
	ctx, stopping context.Context //nolint:containedctx // a stream has one
	cancel        context.CancelFunc

	mu      sync.Mutex
	serving bool // is what it was told last
}

func (w *watcher) Context() context.Context { return w.ctx }

func (w *watcher) Send(r *grpc_health_v1.HealthCheckResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.Health_WatchServer.Send(r)
	w.serving = r.Status == grpc_health_v1.HealthCheckResponse_SERVING
	if !w.serving && w.stopping.Err() != nil {
		w.cancel()
	}
	return err
}

// stop ends one who has nothing more to be told.
func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.serving {
		w.cancel()
	}
}
