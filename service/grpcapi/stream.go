package grpcapi

import (
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/internal/grpcwire/wirev1"
)

// A streamed is a request of a stream, and what is needed to answer it.
type streamed struct {
	request  wirev1.StreamRequest
	response wirev1.StreamResponse
	asker    *asker
}

// A talk is a stream.
type talk struct {
	server *Server
	stream grpc.ServerStream

	mu      sync.Mutex // held while an answer is sent
	stopped bool       // nothing more may be sent: the handler has returned
}

// handleStream waits until the stream ends or the server is to stop; who reads requests and answers them is a goroutine
// beside it, because only by returning can a handler end a stream on which nothing comes.
func handleStream(srv any, stream grpc.ServerStream) error {
	s := srv.(*Server)
	t := &talk{server: s, stream: stream}
	ended := make(chan error, 1)
	s.running.Go(func() { ended <- t.run() })
	select {
	case err := <-ended:
		return err
	case <-s.stopping.Done():
		t.mu.Lock() // what is being answered gets its answer
		defer t.mu.Unlock()
		t.stopped = true
		return errStopping
	}
}

// run answers requests until the client has sent all.
func (t *talk) run() error {
	var group sync.WaitGroup
	defer group.Wait()
	// How many may be decided at once; who reads decides too if there is no place.
	places := make(chan struct{}, t.server.config.Parallel-1)
	for {
		m := t.server.streamed.Get().(*streamed)
		if err := t.stream.RecvMsg(&m.request); err != nil {
			t.server.streamed.Put(m)
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
	defer t.server.streamed.Put(m)
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
