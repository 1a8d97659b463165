package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/internal/bodytype"
	"github.com/headgate/headgate/server/service"
)

// A Server serves the API. It is an http.Handler, and safe for concurrent use.
type Server struct {
	config        Config
	tokens        service.Tokens
	calls         sync.Pool        // of *apiCall
	decisions     sync.Pool        // of *decision
	buffered      atomic.Int64     // bytes of large bodies in memory
	faults        service.LogLimit // limits the log lines about faults
	proxyWarnings service.LogLimit
	warnedRules   atomic.Pointer[match.Set] // the rule set whose concurrency limits were logged
}

var _ http.Handler = (*Server)(nil)

// New returns a Server, or an error about an invalid Config.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c, tokens: service.Tokens{Listener: "api", Token: c.Token, Logins: c.Logins}}
	if err := s.tokens.Validate(); err != nil {
		return nil, err
	}
	s.calls.New = func() any { return new(apiCall) }
	s.decisions.New = func() any { return &decision{attributeMap: make(map[string]string)} }
	return s, nil
}

// An apiCall has the memory for one call. It is reused.
type apiCall struct {
	body       []byte // the raw body
	text       string // body as a string
	requests   []request
	attributes []attribute // of all requests
	out        []byte
	reserved   int64 // number of bytes that this call has added to Server.buffered
}

// A decision has the memory for one decision. It is reused.
type decision struct {
	attributes   identity.Attributes
	verdict      engine.Verdict
	attributeMap map[string]string
	fields       []httplimit.Field
	originalRequest
}

// maxPooledBytes and maxPooledElements are the maximum sizes of buffers that are reused.
const (
	maxPooledBytes    = 256 << 10
	maxPooledElements = 4 << 10
)

func (s *Server) releaseCall(c *apiCall) {
	s.buffered.Add(-c.reserved)
	clear(c.requests)
	clear(c.attributes)
	c.text, c.reserved = "", 0
	c.requests, c.attributes = c.requests[:0], c.attributes[:0]
	if cap(c.body) > maxPooledBytes || cap(c.out) > maxPooledBytes || cap(c.requests) > maxPooledElements ||
		cap(c.attributes) > maxPooledElements {
		return
	}
	s.calls.Put(c)
}

// releaseDecision clears a decision and returns it to the pool.
func (s *Server) releaseDecision(d *decision) {
	d.attributes.Reset()
	clear(d.attributeMap)
	clear(d.fields)
	d.originalRequest = originalRequest{}
	s.decisions.Put(d)
}

// ForwardAuthPath is the path for proxies. Calls of this path have headers of the proxy's client, such as Origin, and
// with some proxies also the client's Host.
const ForwardAuthPath = "/v1/forward-auth"

// A route is the handler of a path.
type route struct {
	method  string
	noToken bool // needs no token, or checks it itself
	serve   func(*Server, http.ResponseWriter, *http.Request)
}

var routes = map[string]route{
	"/v1/ratelimit":         {method: http.MethodPost, serve: (*Server).decideOne},
	"/v1/ratelimit:batch":   {method: http.MethodPost, serve: (*Server).decideBatch},
	"/v1/ratelimit:release": {method: http.MethodPost, serve: (*Server).releaseLease},
	"/v1/ratelimit:renew":   {method: http.MethodPost, serve: (*Server).renewLease},
	ForwardAuthPath:         {noToken: true, serve: (*Server).forwardAuth},
	"/openapi.json":         {method: http.MethodGet, noToken: true, serve: (*Server).openAPI},
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.config.Tracer == nil {
		s.serve(w, r)
	} else {
		s.serveTraced(w, r)
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	route, found := routes[r.URL.Path]
	switch {
	case !found:
		if handler := s.config.OtherHandlers[r.URL.Path]; handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		fail(w, http.StatusNotFound, "There is nothing at "+strconv.Quote(truncate(r.URL.Path))+"; see /openapi.json.")
	case route.method != "" && r.Method != route.method && (route.method != http.MethodGet || r.Method != http.MethodHead):
		w.Header().Set("Allow", route.method)
		fail(w, http.StatusMethodNotAllowed, "Use "+route.method+".")
	case !route.noToken && s.config.Token != nil:
		if err := s.login(r, r.Header.Get("Authorization")); err != nil {
			unauthorized(w, err)
			return
		}
		route.serve(s, w, r)
	default:
		route.serve(s, w, r)
	}
}

// truncate returns a text truncated for messages.
func truncate(text string) string {
	const maxLength = 100
	if len(text) > maxLength {
		return text[:maxLength] + "..."
	}
	return text
}

// login checks the token of an Authorization header.
func (s *Server) login(r *http.Request, authorization string) error {
	ctx := r.Context()
	return s.tokens.CheckBearer(ctx, authorization, service.ParseAddr(r.RemoteAddr), service.AuthenticatedFlag(ctx))
}

// unauthorized responds to a call whose token was refused with err.
func unauthorized(w http.ResponseWriter, err error) {
	var tooMany *service.TooManyLoginsError
	if errors.As(err, &tooMany) {
		w.Header().Set("Retry-After", strconv.FormatInt(tooMany.Seconds(), 10))
		fail(w, http.StatusTooManyRequests, "Too many wrong tokens from this address.")
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	fail(w, http.StatusUnauthorized,
		"Missing or wrong token of the decision service: want Authorization: Bearer TOKEN.")
}

// readBody reads the body of a call. If it returns false, it has written the response.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, c *apiCall) bool {
	maxBytes := int64(s.config.MaxBody)
	size := r.ContentLength
	switch encoding := r.Header.Get("Content-Encoding"); {
	case encoding != "" && encoding != "identity":
		fail(w, http.StatusUnsupportedMediaType, "Send the body as it is, without Content-Encoding.")
		return false
	case !acceptsType(r.Header.Get("Content-Type")):
		fail(w, http.StatusUnsupportedMediaType, "Send JSON, with Content-Type application/json or none.")
		return false
	case size > maxBytes:
		respondTooLarge(w, maxBytes)
		return false
	case size < 0:
		size = maxBytes // the size is unknown
	}
	if size > smallBody {
		if s.buffered.Add(size) > s.config.MaxBuffered {
			s.buffered.Add(-size)
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusServiceUnavailable, "Too many large calls at once.")
			return false
		}
		c.reserved = size
	}
	if err := c.readBody(r.Body, maxBytes); err != nil {
		if errors.Is(err, errTooLarge) {
			respondTooLarge(w, maxBytes)
		} else {
			fail(w, http.StatusBadRequest, "The body could not be read: "+truncate(err.Error())+".")
		}
		return false
	}
	c.text = string(c.body)
	return true
}

// acceptsType reports whether a body with this Content-Type can be JSON.
func acceptsType(header string) bool {
	t := bodytype.Of(header)
	return t == bodytype.JSON || t == bodytype.Unset
}

// smallBody is the size up to which bodies do not count for Config.MaxBuffered.
const smallBody = 4 << 10

var errTooLarge = errors.New("httpapi: the body is too large")

// readBody reads a body of at most maxBytes.
func (c *apiCall) readBody(body io.Reader, maxBytes int64) error {
	if c.body == nil {
		c.body = make([]byte, 0, 1<<10)
	}
	c.body = c.body[:0]
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)] // grows the capacity
		}
		n, err := body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if int64(len(c.body)) > maxBytes {
			return errTooLarge
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func respondTooLarge(w http.ResponseWriter, maxBytes int64) {
	w.Header().Set("Connection", "close") // otherwise the server would read the rest of the body
	fail(w, http.StatusRequestEntityTooLarge, "The body is longer than "+strconv.FormatInt(maxBytes, 10)+" bytes.")
}
