package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// metadataSaid records the metadata that a handler sends, which may contain the cost.
type metadataSaid struct {
	mu              sync.Mutex // handlers may send from several goroutines
	header, trailer metadata.MD
}

func (s *metadataSaid) inHeader(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = metadata.Join(s.header, md)
}

func (s *metadataSaid) inTrailer(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
}

// lastWord returns the value of a name. A trailer comes later than a header, and has precedence.
func (s *metadataSaid) lastWord(name string) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, md := range []metadata.MD{s.trailer, s.header} {
		if values := md.Get(name); len(values) > 0 {
			return values[len(values)-1]
		}
	}
	return ""
}

// listen returns the context for a handler, which records metadata sent with grpc.SetHeader and similar functions.
func (s *metadataSaid) listen(ctx context.Context) context.Context {
	under := grpc.ServerTransportStreamFromContext(ctx)
	if under == nil {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, &listening{ServerTransportStream: under, said: s})
}

// listening is a transport stream that records metadata.
type listening struct {
	grpc.ServerTransportStream
	said *metadataSaid
}

func (l *listening) SetHeader(md metadata.MD) error {
	l.said.inHeader(md)
	return l.ServerTransportStream.SetHeader(md)
}

func (l *listening) SendHeader(md metadata.MD) error {
	l.said.inHeader(md)
	return l.ServerTransportStream.SendHeader(md)
}

func (l *listening) SetTrailer(md metadata.MD) error {
	l.said.inTrailer(md)
	return l.ServerTransportStream.SetTrailer(md)
}
