package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// A healthServer ends those who watch when the server stops, after they were told that it does: they would watch for ever, and
// the server wait for them.
type healthServer struct {
	*health.Server
	stopping context.Context //nolint:containedctx // it is the server's
}

func (h *healthServer) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
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
