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

	"github.com/headgate/headgate/server/service"
)

// Handler serves POST /json for clients without gRPC. The body is a RateLimitRequest in the JSON form of protobuf, and
// the response is a RateLimitResponse with status 200, or 429 for OVER_LIMIT. Like envoyproxy/ratelimit, it ignores the
// Content-Type. Handler also serves GET /healthcheck, with status 200 or 500.
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
		_, _ = io.WriteString(w, "unhealthy\n") // an error means that the client has disconnected
		return
	}
	_, _ = io.WriteString(w, "OK")
}

// login checks the token. If it returns false, it has written the response.
func (s *Server) login(w http.ResponseWriter, r *http.Request) bool {
	if s.config.Token == nil {
		return true
	}
	ctx := r.Context()
	err := s.tokens.CheckBearer(ctx, r.Header.Get("Authorization"), service.ParseAddr(r.RemoteAddr), service.AuthenticatedFlag(ctx))
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
	done, ok := s.reserve(r.ContentLength)
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many large requests at once", http.StatusServiceUnavailable)
		return
	}
	defer done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.config.Limits.Body)))
	if err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			http.Error(w, "the request is too large", http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "the request was not received", http.StatusBadRequest)
		return
	}
	if l := &s.config.Limits; bytes.Count(body, []byte("{")) > 1+l.Descriptors*(objectsPerDescriptor+l.Entries) {
		// Parsing JSON that consists of brackets allocates fifty times its length, so refuse it before parsing.
		http.Error(w, fmt.Sprintf("too many objects: want at most %d descriptors of at most %d entries",
			l.Descriptors, l.Entries), http.StatusBadRequest)
		return
	}
	var request rlspb.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		http.Error(w, "not a RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	response, err := s.serveGenerated(r, &request)
	if err != nil {
		http.Error(w, grpcstatus.Convert(err).Message(), httpStatus(err))
		return
	}
	data, err := protojson.Marshal(response)
	if err != nil {
		s.config.OnError(err)
		http.Error(w, "cannot encode the response", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if response.OverallCode == rlspb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(data) // an error means that the client has disconnected
}

// objectsPerDescriptor is the maximum number of JSON objects of a descriptor without its entries. A descriptor and its
// limit need few; the number is higher because brackets inside strings are counted too.
const objectsPerDescriptor = 8

const (
	// smallBody is the size up to which bodies do not count for maxBuffered.
	smallBody = 4 << 10
	// maxBuffered is the maximum total size of larger bodies in memory.
	maxBuffered = 64 << 20
)

// reserve reserves memory for a body of the given size, which is negative if it is unknown. It returns false if too
// many large bodies are in memory. The caller must call done when it no longer needs the body.
func (s *Server) reserve(size int64) (done func(), ok bool) {
	if maxBody := int64(s.config.Limits.Body); size < 0 || size > maxBody {
		size = maxBody
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

// serveGenerated calls shouldRateLimit with a message of the generated protobuf code. It converts the message and the
// response between that code and this package's types.
func (s *Server) serveGenerated(r *http.Request, request *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	data, err := proto.Marshal(request)
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
	response := new(rlspb.RateLimitResponse)
	if err := proto.Unmarshal(data, response); err != nil {
		return nil, grpcstatus.Error(codes.Internal, err.Error())
	}
	return response, nil
}

// httpStatus returns the HTTP status for a gRPC error.
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
