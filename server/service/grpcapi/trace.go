package grpcapi

import "strings"

// isUntraced reports whether calls of a method have no span: health checks, and streams, which last for hours. Each
// message of a stream has a span instead.
func (s *Server) isUntraced(fullMethod string) bool {
	return (*s.streams.Load())[fullMethod] || strings.HasPrefix(fullMethod, healthPrefix)
}

const healthPrefix = "/grpc.health.v1.Health/"
