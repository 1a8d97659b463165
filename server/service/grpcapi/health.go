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

// A healthServer is gRPC's health server with two changes. When the server stops, a healthServer sends NOT_SERVING to
// watches and ends them; otherwise the server would wait for them forever. A connection may have at most maxWatches
// watches, because watches do not end by themselves.
type healthServer struct {
	*health.Server
	stopping context.Context //nolint:containedctx // ends when the server stops

	mu      sync.Mutex
	watches map[net.Addr]int // by connection
}

// maxWatches is the maximum number of health watches of one connection.
const maxWatches = 16

var errWatches = status.Error(codes.ResourceExhausted, "too many watches on this connection: want at most 16")

func newHealthServer(s *health.Server, stopping context.Context) *healthServer { //nolint:revive // the server stores it
	return &healthServer{Server: s, stopping: stopping, watches: map[net.Addr]int{}}
}

// begin counts a watch of a connection. It returns false if there are too many.
func (h *healthServer) begin(conn net.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[conn] >= maxWatches {
		return false
	}
	h.watches[conn]++
	return true
}

func (h *healthServer) end(conn net.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[conn]--; h.watches[conn] == 0 {
		delete(h.watches, conn)
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

// A watcher is the stream of one watch.
type watcher struct {
	grpc_health_v1.Health_WatchServer
	ctx, stopping context.Context //nolint:containedctx // a stream has one
	cancel        context.CancelFunc

	mu      sync.Mutex
	serving bool // the last status sent
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

// stop ends the watch if NOT_SERVING was already sent.
func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.serving {
		w.cancel()
	}
}
