package grpcapi

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/internal/grpcwire/wirev1"
)

// A streamed is a request of a stream, and what is needed to answer it.
type streamed struct {
	request  wirev1.StreamRequest
	response wirev1.StreamResponse
	asker    *asker
	large    bool // is not kept for others
}

// release hands it back, if there is one.
func (m *streamed) release(s *Server) {
	if m != nil && !m.large {
		s.streamed.Put(m)
	}
}

// An arrival is what a stream reads next. It has nothing before that comes.
type arrival struct {
	server   *Server
	streamed *streamed
}

func (a *arrival) UnmarshalWire(b []byte) error {
	a.streamed = a.server.streamed.Get().(*streamed)
	a.streamed.large = len(b) > keptBytes
	return a.streamed.request.UnmarshalWire(b)
}

func (*arrival) MarshalWire([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// take returns what has come, nil if it is nothing.
func (a *arrival) take() *streamed {
	m := a.streamed
	a.streamed = nil
	return m
}

// A talk is a stream.
type talk struct {
	server *Server
	stream grpc.ServerStream

	mu      sync.Mutex // held while an answer is sent
	stopped bool       // nothing more may be sent: the handler has returned
}

// handleStream answers the requests of a stream.
func handleStream(srv any, stream grpc.ServerStream) error {
	t := &talk{server: srv.(*Server), stream: stream}
	return t.until(t.run)
}

// handleBatches answers the batches of a stream, one after the other.
func handleBatches(srv any, stream grpc.ServerStream) error {
	t := &talk{server: srv.(*Server), stream: stream}
	err := t.until(t.runBatches)
	if t.stopped {
		stream.SetTrailer(metadata.Pairs(unread, "1"))
	}
	return err
}

const (
	// batchStream is BatchRateLimit again and again: each batch is answered before the next is read.
	batchStream = "BatchStream"
	// unread is a trailer of it: what was sent and not answered was not read either, and can be sent elsewhere.
	unread = "headgate-unread"
)

// until waits until the stream ends or the server is to stop; who reads requests and answers them is a goroutine beside it,
// because only by returning can a handler end a stream on which nothing comes.
func (t *talk) until(run func() error) error {
	ended := make(chan error, 1)
	t.server.running.Go(func() { ended <- run() })
	select {
	case err := <-ended:
		return err
	case <-t.server.stopping.Done():
		t.mu.Lock() // what is being answered gets its answer
		defer t.mu.Unlock()
		t.stopped = true
		return errStopping
	}
}

// A carrier is the message of a stream of batches: what it reads makes a batch, and what it writes are the answers of that.
// While nothing comes it has none, so that streams which are idle hold no buffers.
type carrier struct {
	server *Server
	batch  *batch
}

func (m *carrier) UnmarshalWire(b []byte) error {
	m.batch = m.server.batches.Get().(*batch)
	return m.batch.UnmarshalWire(b)
}

func (m *carrier) MarshalWire(dst []byte) ([]byte, error) { return append(dst, m.batch.out...), nil }

// release hands the batch back, if there is one.
func (m *carrier) release() {
	if m.batch != nil {
		m.batch.release()
		m.batch = nil
	}
}

// runBatches answers batches until the client has sent all.
func (t *talk) runBatches() error {
	m := &carrier{server: t.server}
	for {
		err := t.stream.RecvMsg(m)
		if err == nil {
			err = t.answerBatch(m)
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

// answerBatch decides a batch and sends the answers.
func (t *talk) answerBatch(m *carrier) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return errStopping
	}
	if err := m.batch.decide(t.stream.Context()); err != nil {
		return err
	}
	if err := t.stream.SendMsg(m); err != nil {
		m.batch.withdraw()
		return err
	}
	return nil
}

// run answers requests until the client has sent all.
func (t *talk) run() error {
	var group sync.WaitGroup
	defer group.Wait()
	// How many may be decided at once; who reads decides too if there is no place.
	places := make(chan struct{}, t.server.config.Parallel-1)
	next := &arrival{server: t.server}
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
		if cap(places) > 0 {
			select {
			case places <- struct{}{}:
				if t.server.help(&group, func() {
					defer func() { <-places }()
					_ = t.answer(m) // whoever reads hears of it too
				}) {
					continue
				}
				<-places
			default:
			}
		}
		if err := t.answer(m); err != nil {
			return err
		}
	}
}

// answer decides a request and sends the answer.
func (t *talk) answer(m *streamed) error {
	defer m.release(t.server)
	if t.server.config.Parallel > 1 { // several are decided at once, and sent one after the other
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
			t.server.withdraw(m.asker)
		}
		return errStopping
	}
	m.response.ID, m.response.Response = m.request.ID, m.asker.answer
	if err := t.stream.SendMsg(&m.response); err != nil {
		t.server.withdraw(m.asker)
		return err
	}
	return nil
}

func (t *talk) decide(m *streamed) {
	t.server.answer(t.stream.Context(), &m.request.Request, m.asker, t.server.config.Now())
}
