package grpclimit

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// sentMetadata records the metadata that a handler sends, which may contain the cost.
type sentMetadata struct {
	mu              sync.Mutex // handlers may send from several goroutines
	header, trailer metadata.MD
}

func (s *sentMetadata) inHeader(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header = metadata.Join(s.header, md)
}

func (s *sentMetadata) inTrailer(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
}

// value returns the value of a name. A trailer comes later than a header, and has precedence.
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

// record returns the context for a handler, which records metadata sent with grpc.SetHeader and similar functions.
func (s *sentMetadata) record(ctx context.Context) context.Context {
	under := grpc.ServerTransportStreamFromContext(ctx)
	if under == nil {
		return ctx
	}
	return grpc.NewContextWithServerTransportStream(ctx, &recordingStream{ServerTransportStream: under, sent: s})
}

// recordingStream is a transport stream that records metadata.
type recordingStream struct {
	grpc.ServerTransportStream
	sent *sentMetadata
}

func (l *recordingStream) SetHeader(md metadata.MD) error {
	l.sent.inHeader(md)
	return l.ServerTransportStream.SetHeader(md)
}

func (l *recordingStream) SendHeader(md metadata.MD) error {
	l.sent.inHeader(md)
	return l.ServerTransportStream.SendHeader(md)
}

func (l *recordingStream) SetTrailer(md metadata.MD) error {
	l.sent.inTrailer(md)
	return l.ServerTransportStream.SetTrailer(md)
}
