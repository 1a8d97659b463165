package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/service"
)

// tokenHeader is where a proxy shows the token, as Authorization is its client's.
const tokenHeader = "X-Headgate-Token"

// Proxies describe the request that they have in one of two dialects, as net/http has their names.
const (
	forwardedMethod = "X-Forwarded-Method" // Traefik, Caddy
	forwardedHost   = "X-Forwarded-Host"
	forwardedURI    = "X-Forwarded-Uri"
	originalMethod  = "X-Original-Method" // nginx by its usual configurations
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url" // with scheme and host; ingress-nginx
)

// An original is a request that a proxy has, as it would have come here without the proxy.
type original struct {
	request http.Request
	url     url.URL
}

// forwardAuth answers GET /v1/forward-auth. Proxies that hand on the client's method call it with that.
func (s *Server) forwardAuth(w http.ResponseWriter, r *http.Request) {
	denied := deniedStatus(r.URL.RawQuery)
	a := s.askers.Get().(*asker)
	defer s.forget(a)
	a.request = http.Request{Method: r.Method, Host: r.Host, URL: r.URL, Header: r.Header, RemoteAddr: r.RemoteAddr}
	if err := s.admit(r, &a.request); err != nil {
		unauthorized(w, err)
		return
	}
	s.config.Identifier.Read(&a.request, &a.who)
	var err error
	if a.who.FromProxy() {
		err = s.restore(a)
	} else {
		s.notBelieved(r)
	}
	if err == nil {
		err = a.who.Malformed()
	}
	if err != nil {
		problem{status: instead(w, http.StatusBadRequest, denied), detail: err.Error()}.answer(w)
		return
	}
	s.warnOfConcurrency()
	if err := s.config.Engine.DecideMore(r.Context(), &a.who, &a.verdict); err != nil {
		s.undecided(w, r, err)
		return
	}
	s.answerProxy(w, r, a, denied)
}

// admit checks the token of a proxy, and removes it from the request of the proxy's client, for which it could be taken.
func (s *Server) admit(call, request *http.Request) error {
	if s.config.Token == nil {
		return nil
	}
	authorization := call.Header.Get("Authorization")
	if shown := call.Header.Get(tokenHeader); shown != "" && (authorization == "" || s.config.Token.Is(shown)) {
		ctx := call.Context()
		return s.tokens.Check(ctx, shown, service.ParseAddr(call.RemoteAddr), service.Proven(ctx))
	}
	// A wrong one beside Authorization may be the client's, who must not use up the proxy's logins.
	if err := login(&s.tokens, call, authorization); err != nil {
		return err
	}
	request.Header = request.Header.Clone()
	delete(request.Header, "Authorization")
	return nil
}

// deniedStatus reads ?status=403, which is what a denial is answered with. Any other query is the client's: some proxies,
// such as Caddy, add it.
func deniedStatus(query string) int {
	switch query {
	case "status=401":
		return http.StatusUnauthorized
	case "status=403":
		return http.StatusForbidden
	case "status=429":
		return http.StatusTooManyRequests
	case "status=503":
		return http.StatusServiceUnavailable
	default:
		return 0
	}
}

// notBelieved tells operators of a proxy that they have not told us of, or of somebody who would be one.
func (s *Server) notBelieved(r *http.Request) {
	for _, name := range [...]string{forwardedURI, originalURI, originalURL, forwardedMethod, originalMethod, "X-Forwarded-For"} {
		if len(r.Header[name]) > 0 && s.strange.now(time.Now(), time.Minute) {
			s.config.Logger.Warn("forward-auth is called by somebody who is no trusted proxy: what it says of its client is not believed",
				"peer", r.RemoteAddr, "want", "its address in trusted_proxies")
			return
		}
	}
}

// restore makes the request the one that a trusted proxy describes. What it describes in two ways must be the same: one of
// them is the client's, who must not choose.
func (s *Server) restore(a *asker) error {
	header, r := a.request.Header, &a.request
	method, err := agreed(header, forwardedMethod, originalMethod)
	if err != nil {
		return err
	}
	if method != "" {
		r.Method = method
	}
	host, err := agreed(header, forwardedHost)
	if err != nil {
		return err
	}
	target, err := agreed(header, forwardedURI, originalURI)
	if err != nil {
		return err
	}
	whole, err := agreed(header, originalURL)
	if err != nil {
		return err
	}
	if whole != "" {
		at, rest, err := splitURL(whole)
		switch {
		case err != nil:
			return err
		case host != "" && !strings.EqualFold(host, at):
			return differs(originalURL, forwardedHost)
		case target != "" && target != rest:
			return differs(originalURL, forwardedURI)
		}
		host, target = at, rest
	}
	if host != "" {
		r.Host = host
	}
	if target == "" {
		if s.strange.now(time.Now(), time.Minute) {
			s.config.Logger.Warn("forward-auth is called without the path that is asked for, so no rule for a path matches",
				"peer", r.RemoteAddr, "want", "X-Forwarded-Uri or X-Original-URI")
		}
	} else if err := a.aim(target); err != nil {
		return err
	}
	s.config.Identifier.Read(r, &a.who)
	return nil
}

// aim makes the request one for a target, which is read as net/http reads it.
func (a *asker) aim(target string) error {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return errTarget
	}
	if u.Host != "" {
		if a.request.Host != "" && len(a.request.Header[forwardedHost]) > 0 && !strings.EqualFold(u.Host, a.request.Host) {
			return differs(forwardedURI, forwardedHost)
		}
		a.request.Host = u.Host
	}
	a.url = *u
	a.request.URL = &a.url
	return nil
}

var errTarget = errors.New("the URI of the request that the proxy has cannot be read")

// agreed returns what headers say, "" if there is none.
func agreed(header http.Header, names ...string) (string, error) {
	value, from := "", ""
	for _, name := range names {
		for _, line := range header[name] {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || line == value:
			case value == "":
				value, from = line, name
			default:
				return "", differs(from, name)
			}
		}
	}
	return value, nil
}

// A conflictError tells of two headers that do not describe the same request.
type conflictError struct{ one, other string }

func (e *conflictError) Error() string {
	if e.one == e.other {
		return e.one + " is there twice and differs"
	}
	return e.one + " and " + e.other + " differ, and only one of them can be the proxy's"
}

func differs(one, other string) error { return &conflictError{one, other} }

// splitURL returns the host and what follows it of a URL.
func splitURL(whole string) (host, rest string, err error) {
	_, rest, ok := strings.Cut(whole, "://")
	if !ok {
		return "", "", errTarget
	}
	i := strings.IndexAny(rest, "/?")
	if i < 0 {
		return rest, "/", nil
	}
	host, rest = rest[:i], rest[i:]
	if rest[0] == '?' {
		rest = "/" + rest
	}
	return host, rest, nil
}

// answerProxy answers what the verdict says, when it is the request's turn.
func (s *Server) answerProxy(w http.ResponseWriter, r *http.Request, a *asker, denied int) {
	v := &a.verdict
	h := w.Header()
	retryAfter := s.tell(h, a, s.config.Now())
	h["Cache-Control"] = noStore
	if v.Action == engine.Delay {
		service.Hold(w, v.Delay)
		if err := v.Wait(r.Context()); err != nil {
			problem{status: http.StatusServiceUnavailable, detail: "Given up while waiting for its turn."}.answer(w)
			return
		}
	}
	if v.Action.Passes() {
		w.WriteHeader(http.StatusOK)
		return
	}
	status := instead(w, v.Status, denied)
	answerProblem(w, status, httplimit.AppendProblem(nil, v, status, retryAfter))
}

// instead returns the status of a denial: the one that the proxy asks for, if any, with the true one in a header.
func instead(w http.ResponseWriter, status, asked int) int {
	if asked == 0 {
		return status
	}
	w.Header()["X-Headgate-Status"] = []string{strconv.Itoa(status)}
	return asked
}

// warnOfConcurrency tells operators, for each set of rules once, which limits forward-auth leaves out.
func (s *Server) warnOfConcurrency() {
	set := s.config.Engine.Rules()
	before := s.warned.Load()
	if set == before || !s.warned.CompareAndSwap(before, set) {
		return
	}
	var ids []string
	for _, r := range set.Rules() {
		if hasConcurrency(r) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) > 0 {
		const most = 10
		s.config.Logger.Warn("forward-auth does not hear when requests end, so it leaves concurrency limits out",
			"rules", ids[:min(len(ids), most)], "count", len(ids))
	}
}

func hasConcurrency(r *rules.Rule) bool {
	for i := range r.Limits {
		if r.Limits[i].Algorithm == headgate.Concurrency {
			return true
		}
	}
	return false
}
