package envoyrls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/service"
)

// Handler answers POST /json, for those who have no gRPC: a RateLimitRequest in the JSON of protobuf, answered with a
// RateLimitResponse and 200, or 429 if it is OVER_LIMIT. And GET /healthcheck, with 200 or 500.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /json", s.serveJSON)
	mux.HandleFunc("GET /healthcheck", s.serveHealth)
	return mux
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if !s.Healthy() {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "unhealthy\n") // a client that has gone need not know
		return
	}
	_, _ = io.WriteString(w, "OK")
}

// login reports whether a call may be made. If not, it has been answered.
func (s *Server) login(w http.ResponseWriter, r *http.Request) bool {
	if s.config.Token == nil {
		return true
	}
	ctx := r.Context()
	err := s.tokens.CheckBearer(ctx, r.Header.Get("Authorization"), service.ParseAddr(r.RemoteAddr), service.Proven(ctx))
	var tooMany *service.TooManyLoginsError
	switch {
	case err == nil:
		return true
	case errors.As(err, &tooMany):
		w.Header().Set("Retry-After", strconv.FormatInt(tooMany.Seconds(), 10))
		http.Error(w, "too many wrong tokens from this address", http.StatusTooManyRequests)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
		http.Error(w, "want the token of this service: Authorization: Bearer …", http.StatusUnauthorized)
	}
	return false
}

func (s *Server) serveJSON(w http.ResponseWriter, r *http.Request) {
	if !s.login(w, r) {
		return
	}
	done, room := s.reserve(r.ContentLength)
	if !room {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many large requests at once", http.StatusServiceUnavailable)
		return
	}
	defer done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.config.Limits.Body))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the request was not received", http.StatusBadRequest)
		return
	}
	if l := &s.config.Limits; bytes.Count(body, []byte("{")) > 1+l.Descriptors*(objects+l.Entries) {
		// A message of nothing but brackets would take fifty times its length, before it could be said that there are too many.
		http.Error(w, fmt.Sprintf("too many objects: want at most %d descriptors of at most %d entries", l.Descriptors, l.Entries), http.StatusBadRequest)
		return
	}
	var asked rlspb.RateLimitRequest
	if err := protojson.Unmarshal(body, &asked); err != nil {
		http.Error(w, "no RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.generated(r, &asked)
	if err != nil {
		http.Error(w, grpcstatus.Convert(err).Message(), httpStatus(err))
		return
	}
	data, err := protojson.Marshal(answer)
	if err != nil {
		s.config.OnError(err)
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if answer.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(data) // a client that has gone need not know
}

// objects is how many there are in a descriptor besides its entries: itself, and its limit. Texts with brackets count as well,
// so there is room for some.
const objects = 8

const (
	// smallBody is a body that is too short to matter.
	smallBody = 4 << 10
	// maxBuffered is how many bytes of bodies that are not small there may be at once.
	maxBuffered = 64 << 20
)

// reserve makes room for a body of so many bytes, or tells that there is none. size is below zero if it is not known. done is
// called when the body is needed no more.
func (s *Server) reserve(size int64) (done func(), room bool) {
	if size < 0 || size > s.config.Limits.Body {
		size = s.config.Limits.Body
	}
	if size <= smallBody {
		return func() {}, true
	}
	size = min(size, maxBuffered)
	done = func() { s.buffered.Add(-size) }
	if s.buffered.Add(size) > maxBuffered {
		done()
		return nil, false
	}
	return done, true
}

// generated is shouldRateLimit for generated messages.
func (s *Server) generated(r *http.Request, asked *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	data, err := proto.Marshal(asked)
	if err != nil {
		return nil, grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	c := newCall(s.config.Limits)
	if err := c.request.UnmarshalWire(data); err != nil {
		c.free()
		return nil, grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	reply, err := s.shouldRateLimit(r.Context(), c)
	if err != nil {
		return nil, err
	}
	if data, err = reply.MarshalWire(data[:0]); err != nil {
		return nil, grpcstatus.Error(codes.Internal, err.Error())
	}
	answer := new(rlspb.RateLimitResponse)
	if err := proto.Unmarshal(data, answer); err != nil {
		return nil, grpcstatus.Error(codes.Internal, err.Error())
	}
	return answer, nil
}

// httpStatus returns the status of HTTP for one of gRPC.
func httpStatus(err error) int {
	switch grpcstatus.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition:
		return http.StatusBadRequest
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.DeadlineExceeded, codes.Canceled:
		return http.StatusGatewayTimeout
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
