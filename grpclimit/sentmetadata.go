package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// sentMetadata records the metadata that a handler sends, which may contain the cost. A nil sentMetadata records
// nothing.
type sentMetadata struct {
	mu              sync.Mutex // handlers may send from several goroutines
	header, trailer metadata.MD
}

func (s *sentMetadata) addHeader(md metadata.MD) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.header = metadata.Join(s.header, md)
	}
}

func (s *sentMetadata) addTrailer(md metadata.MD) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trailer = metadata.Join(s.trailer, md)
	}
}

// value returns the last value of a name in the trailer, or in the header if the trailer has none.
func (s *sentMetadata) value(name string) string {
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

// record returns a context for a handler. Metadata that the handler sends with grpc.SetHeader and similar functions is
// recorded.
func (s *sentMetadata) record(ctx context.Context) context.Context {
	inner := grpc.ServerTransportStreamFromContext(ctx)
	if inner == nil {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, &recordingStream{ServerTransportStream: inner, sent: s})
}

// recordingStream is a transport stream that records metadata.
type recordingStream struct {
	grpc.ServerTransportStream
	sent *sentMetadata
}

func (r *recordingStream) SetHeader(md metadata.MD) error {
	r.sent.addHeader(md)
	return r.ServerTransportStream.SetHeader(md)
}

func (r *recordingStream) SendHeader(md metadata.MD) error {
	r.sent.addHeader(md)
	return r.ServerTransportStream.SendHeader(md)
}

func (r *recordingStream) SetTrailer(md metadata.MD) error {
	r.sent.addTrailer(md)
	return r.ServerTransportStream.SetTrailer(md)
}
