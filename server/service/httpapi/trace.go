package httpapi

import (
	"net/http"

	"github.com/headgate/headgate/server/telemetry/traces"
)

// serveTraced calls serve within a span.
func (s *Server) serveTraced(w http.ResponseWriter, r *http.Request) {
	name := r.Method
	if _, served := routes[r.URL.Path]; served || s.config.OtherHandlers[r.URL.Path] != nil {
		name += " " + r.URL.Path // only known paths, so that clients cannot create any number of span names
	}
	ctx, span := s.config.Tracer.StartHTTP(r, name, true)
	writer := &traces.StatusWriter{ResponseWriter: w}
	status := 0 // stays 0 if a handler panics
	defer func() { span.EndHTTP(status) }()
	s.serve(writer, r.WithContext(ctx))
	status = writer.Status()
}
