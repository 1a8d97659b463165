package grpcapi

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A streamMessage is a request on a stream and the memory to decide it.
type streamMessage struct {
	request  wirev1.StreamRequest
	response wirev1.StreamResponse
	decision *decision
	tooLarge bool // too large to be reused
}

// release returns m, if it is not nil, to the pool.
func (m *streamMessage) release(s *Server) {
	if m != nil && !m.tooLarge {
		s.streamMessages.Put(m)
	}
}

// A nextMessage receives the next message of a stream. It takes a streamMessage from the pool only when the message
// arrives, so that idle streams need no memory.
type nextMessage struct {
	server  *Server
	message *streamMessage
}

func (n *nextMessage) UnmarshalWire(b []byte) error {
	n.message = n.server.streamMessages.Get().(*streamMessage)
	n.message.tooLarge = len(b) > maxPooledBytes
	return n.message.request.UnmarshalWire(b)
}

func (*nextMessage) MarshalWire([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// take returns the message, or nil if none has arrived.
func (n *nextMessage) take() *streamMessage {
	m := n.message
	n.message = nil
	return m
}

// A streamHandler is the server side of a stream.
type streamHandler struct {
	server *Server
	stream grpc.ServerStream

	mu      sync.Mutex // held while a response is sent
	stopped bool       // no response may be sent any more, because the handler has returned
}

// handleStream serves a stream of requests.
func handleStream(srv any, stream grpc.ServerStream) error {
	t := &streamHandler{server: srv.(*Server), stream: stream}
	return t.runUntilStop(t.run)
}

// handleBatches serves a stream of batches, one after the other.
func handleBatches(srv any, stream grpc.ServerStream) error {
	t := &streamHandler{server: srv.(*Server), stream: stream}
	err := t.runUntilStop(t.runBatches)
	if t.stopped {
		stream.SetTrailer(metadata.Pairs(unreadTrailer, "1"))
	}
	return err
}

const (
	// batchStream is a stream of BatchRateLimit calls: each batch is decided before the next is read.
	batchStream = "BatchStream"
	// unreadTrailer is a trailer of batchStream. It means that batches without a response were not decided, so the client
	// can send them to another server.
	unreadTrailer = "headgate-unread"
)

// runUntilStop runs the stream in a goroutine, and returns when the stream ends or the server stops. The goroutine is
// needed because gRPC ends a stream only when its handler returns, and run may be waiting for a message.
func (t *streamHandler) runUntilStop(run func() error) error {
	ended := make(chan error, 1)
	t.server.running.Go(func() { ended <- run() })
	select {
	case err := <-ended:
		return err
	case <-t.server.stopping.Done():
		t.mu.Lock() // waits until a response that is being sent is complete
		defer t.mu.Unlock()
		t.stopped = true
		return errStopping
	}
}

// A batchMessage decodes a batch of a stream, and encodes its responses. It takes a batchCall from the pool only when a
// message arrives, so that idle streams need no memory.
type batchMessage struct {
	server *Server
	batch  *batchCall
}

func (m *batchMessage) UnmarshalWire(b []byte) error {
	m.batch = m.server.batches.Get().(*batchCall)
	return m.batch.UnmarshalWire(b)
}

func (m *batchMessage) MarshalWire(dst []byte) ([]byte, error) {
	return append(dst, m.batch.out...), nil
}

// release returns the batch, if any, to the pool.
func (m *batchMessage) release() {
	if m.batch != nil {
		m.batch.release()
		m.batch = nil
	}
}

// runBatches serves batches until the client closes its side.
func (t *streamHandler) runBatches() error {
	m := &batchMessage{server: t.server}
	for {
		err := t.stream.RecvMsg(m)
		if err == nil {
			err = t.respondBatch(m)
		}
		m.release()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// respondBatch decides a batch and sends the responses.
func (t *streamHandler) respondBatch(m *batchMessage) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return errStopping
	}
	ctx, span := t.server.config.Tracer.StartCall(t.stream.Context(), headgatev1.RateLimiter_BatchStream_FullMethodName)
	err := m.batch.decide(ctx)
	span.EndCall(err)
	if err != nil {
		return err
	}
	if err := t.stream.SendMsg(m); err != nil {
		m.batch.freeSlots()
		return err
	}
	return nil
}

// run serves requests until the client closes its side.
func (t *streamHandler) run() error {
	var group sync.WaitGroup
	defer group.Wait()
	// slots limits the concurrent decisions. If no slot is free, this goroutine decides the request itself.
	slots := make(chan struct{}, t.server.config.Parallel-1)
	next := &nextMessage{server: t.server}
	for {
		err := t.stream.RecvMsg(next)
		m := next.take()
		if err != nil {
			m.release(t.server)
			if errors.Is(err, io.EOF) {
				group.Wait()
				return nil
			}
			return err
		}
		if cap(slots) > 0 {
			select {
			case slots <- struct{}{}:
				if t.server.tryGo(&group, func() {
					defer func() { <-slots }()
					_ = t.respond(m) // after an error, RecvMsg fails too
				}) {
					continue
				}
				<-slots
			default:
			}
		}
		if err := t.respond(m); err != nil {
			return err
		}
	}
}

// respond decides a request and sends the response.
func (t *streamHandler) respond(m *streamMessage) error {
	defer m.release(t.server)
	if t.server.config.Parallel > 1 { // decide without the lock; only sending needs it
		t.decide(m)
		t.mu.Lock()
		defer t.mu.Unlock()
	} else {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.stopped {
			t.decide(m)
		}
	}
	if t.stopped {
		if t.server.config.Parallel > 1 {
			t.server.withdraw(m.decision)
		}
		return errStopping
	}
	m.response.ID, m.response.Response = m.request.ID, m.decision.response
	if err := t.stream.SendMsg(&m.response); err != nil {
		t.server.withdraw(m.decision)
		return err
	}
	return nil
}

func (t *streamHandler) decide(m *streamMessage) {
	ctx, span := t.server.config.Tracer.StartCall(t.stream.Context(), headgatev1.RateLimiter_Stream_FullMethodName)
	t.server.decideOrSetError(ctx, &m.request.Request, m.decision, t.server.config.Now())
	span.EndCall(nil)
}
