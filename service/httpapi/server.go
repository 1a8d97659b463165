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
	"github.com/headgate/headgate/internal/bodytype"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/service"
)

// A Server answers calls. It is an http.Handler, and safe for concurrent use.
type Server struct {
	config   Config
	tokens   service.Tokens
	calls    sync.Pool // of *call
	askers   sync.Pool // of *asker
	buffered atomic.Int64
	faults   quiet // by which not every one of them is logged
	strange  quiet
	warned   atomic.Pointer[rules.Set] // those whose concurrency limits were told of
}

var _ http.Handler = (*Server)(nil)

// New returns a Server. The error says what is wrong with the Config.
func New(c Config) (*Server, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Server{config: c, tokens: service.Tokens{Listener: "api", Token: c.Token, Logins: c.Logins}}
	if err := s.tokens.Validate(); err != nil {
		return nil, err
	}
	s.calls.New = func() any { return new(call) }
	s.askers.New = func() any { return &asker{given: make(map[string]string)} }
	return s, nil
}

// A call is what one call needs. It is used again for others.
type call struct {
	body       []byte // as it is read
	text       string // of the body
	requests   []request
	attributes []attribute // of all requests
	out        []byte
	reserved   int64 // of Config.MaxBuffered
}

// An asker is what one decision needs. It is used again for others.
type asker struct {
	who     identity.Attributes
	verdict engine.Verdict
	given   map[string]string
	fields  []httplimit.Field
	original
}

// keepBytes and keepCount are how large buffers may be to be kept for the next call.
const (
	keepBytes = 256 << 10
	keepCount = 4 << 10
)

func (s *Server) release(c *call) {
	s.buffered.Add(-c.reserved)
	clear(c.requests)
	clear(c.attributes)
	c.text, c.reserved = "", 0
	c.requests, c.attributes = c.requests[:0], c.attributes[:0]
	if cap(c.body) > keepBytes || cap(c.out) > keepBytes || cap(c.requests) > keepCount || cap(c.attributes) > keepCount {
		return
	}
	s.calls.Put(c)
}

// forget lets an asker be used for others. It keeps nothing of what this one was about.
func (s *Server) forget(a *asker) {
	a.who.Reset()
	clear(a.given)
	clear(a.fields)
	a.original = original{}
	s.askers.Put(a)
}

// ForwardAuthPath is where proxies ask about the requests of their clients. These calls carry the clients' headers, such
// as Origin, and with some proxies their Host.
const ForwardAuthPath = "/v1/forward-auth"

// A route is what is served at a path.
type route struct {
	method string
	open   bool // no token is asked for, or it asks itself
	serve  func(*Server, http.ResponseWriter, *http.Request)
}

var routes = map[string]route{
	"/v1/ratelimit":         {method: http.MethodPost, serve: (*Server).single},
	"/v1/ratelimit:batch":   {method: http.MethodPost, serve: (*Server).batch},
	"/v1/ratelimit:release": {method: http.MethodPost, serve: (*Server).releaseLease},
	ForwardAuthPath:         {open: true, serve: (*Server).forwardAuth},
	"/openapi.json":         {method: http.MethodGet, open: true, serve: (*Server).openAPI},
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, ours := routes[r.URL.Path]
	switch {
	case !ours:
		if also := s.config.Also[r.URL.Path]; also != nil {
			also.ServeHTTP(w, r)
			return
		}
		problem{status: http.StatusNotFound, detail: "There is nothing at " + strconv.Quote(short(r.URL.Path)) + "; see /openapi.json."}.answer(w)
	case to.method != "" && r.Method != to.method && (to.method != http.MethodGet || r.Method != http.MethodHead):
		w.Header().Set("Allow", to.method)
		problem{status: http.StatusMethodNotAllowed, detail: "Use " + to.method + "."}.answer(w)
	case !to.open && s.config.Token != nil:
		if err := login(&s.tokens, r, r.Header.Get("Authorization")); err != nil {
			unauthorized(w, err)
			return
		}
		to.serve(s, w, r)
	default:
		to.serve(s, w, r)
	}
}

// short returns a text as far as it is fit to be repeated.
func short(text string) string {
	const most = 100
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// RequireToken returns a handler that asks for a token before next answers.
func RequireToken(t *service.Tokens, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := login(t, r, r.Header.Get("Authorization")); err != nil {
			unauthorized(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// login checks the token of an Authorization header.
func login(t *service.Tokens, r *http.Request, authorization string) error {
	ctx := r.Context()
	return t.CheckBearer(ctx, authorization, service.ParseAddr(r.RemoteAddr), service.Proven(ctx))
}

// unauthorized answers a call whose token was refused with err.
func unauthorized(w http.ResponseWriter, err error) {
	var tooMany *service.TooManyLoginsError
	if errors.As(err, &tooMany) {
		w.Header().Set("Retry-After", strconv.FormatInt(tooMany.Seconds(), 10))
		problem{status: http.StatusTooManyRequests, detail: "Too many wrong tokens from this address."}.answer(w)
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	problem{
		status: http.StatusUnauthorized,
		detail: "Show the token of the decision service: Authorization: Bearer TOKEN.",
	}.answer(w)
}

// read reads the body of a call, or answers what is wrong with it.
func (s *Server) read(w http.ResponseWriter, r *http.Request, c *call) bool {
	most := int64(s.config.MaxBody)
	size := r.ContentLength
	switch encoding := r.Header.Get("Content-Encoding"); {
	case encoding != "" && encoding != "identity":
		problem{status: http.StatusUnsupportedMediaType, detail: "Send the body as it is, without Content-Encoding."}.answer(w)
		return false
	case !takesType(r.Header.Get("Content-Type")):
		problem{status: http.StatusUnsupportedMediaType, detail: "Send JSON, with Content-Type application/json or none."}.answer(w)
		return false
	case size > most:
		tooLarge(w, most)
		return false
	case size < 0:
		size = most // it is not said
	}
	if size > smallBody {
		if s.buffered.Add(size) > s.config.MaxBuffered {
			s.buffered.Add(-size)
			w.Header().Set("Retry-After", "1")
			problem{status: http.StatusServiceUnavailable, detail: "Too many large calls at once."}.answer(w)
			return false
		}
		c.reserved = size
	}
	if err := c.fill(r.Body, most); err != nil {
		if errors.Is(err, errTooLarge) {
			tooLarge(w, most)
		} else {
			problem{status: http.StatusBadRequest, detail: "The body did not arrive: " + short(err.Error()) + "."}.answer(w)
		}
		return false
	}
	c.text = string(c.body)
	return true
}

// takesType reports whether a body with this Content-Type can be JSON.
func takesType(header string) bool {
	t := bodytype.Of(header)
	return t == bodytype.JSON || t == bodytype.Unset
}

// smallBody is a body that is too short to matter.
const smallBody = 4 << 10

var errTooLarge = errors.New("httpapi: the body is too large")

// fill reads a body of at most so many bytes.
func (c *call) fill(body io.Reader, most int64) error {
	if c.body == nil {
		c.body = make([]byte, 0, 1<<10)
	}
	c.body = c.body[:0]
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)] // grows
		}
		n, err := body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if int64(len(c.body)) > most {
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

func tooLarge(w http.ResponseWriter, most int64) {
	w.Header().Set("Connection", "close") // rather than read what is left of it
	problem{
		status: http.StatusRequestEntityTooLarge, detail: "The body may have " + strconv.FormatInt(most, 10) + " bytes.",
	}.answer(w)
}
