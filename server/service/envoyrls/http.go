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

// Handler serves POST /json for clients without gRPC: a RateLimitRequest in protobuf's JSON gets a RateLimitResponse
// with status 200, or 429 for OVER_LIMIT. The Content-Type does not matter, as in envoyproxy/ratelimit. It also serves
// GET /healthcheck with 200 or 500.
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
	err := s.tokens.CheckBearer(ctx, r.Header.Get("Authorization"), service.ParseAddr(r.RemoteAddr), service.ConnAuthenticated(ctx))
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
		// JSON made only of brackets would allocate fifty times its length before parsing could fail.
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

// objectsPerDescriptor bounds the JSON objects of a descriptor without its entries: the descriptor and its limit, and
// some more, because brackets inside strings are counted too.
const objectsPerDescriptor = 8

const (
	// smallBody is the size in bytes up to which bodies are not counted.
	smallBody = 4 << 10
	// maxBuffered bounds the bytes of all larger bodies held at the same time.
	maxBuffered = 64 << 20
)

// reserve reserves memory for a body of size bytes, negative if unknown. It returns false if there is not enough. The
// caller calls done when it no longer needs the body.
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

// serveGenerated calls shouldRateLimit with a generated message instead of one in this package's own codec.
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
