package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// tokenHeader has the token of a proxy, because Authorization may be a header of the proxy's client.
const tokenHeader = "X-Headgate-Token"

// Proxies describe the client's request with X-Forwarded or X-Original headers. These names are in canonical form.
const (
	forwardedMethod = "X-Forwarded-Method" // Traefik, Caddy
	forwardedHost   = "X-Forwarded-Host"
	forwardedURI    = "X-Forwarded-Uri"
	originalMethod  = "X-Original-Method" // nginx, in common configurations
	originalURI     = "X-Original-Uri"
	originalURL     = "X-Original-Url" // ingress-nginx; with scheme and host
)

// An originalRequest is the request that the proxy received from its client.
type originalRequest struct {
	request http.Request
	url     url.URL
}

// forwardAuth serves GET /v1/forward-auth. Proxies that forward the client's method may use any method.
func (s *Server) forwardAuth(w http.ResponseWriter, r *http.Request) {
	denialStatus := parseDenialStatus(r.URL.RawQuery)
	d := s.decisions.Get().(*decision)
	defer s.releaseDecision(d)
	d.request = http.Request{Method: r.Method, Host: r.Host, URL: r.URL, Header: r.Header, RemoteAddr: r.RemoteAddr}
	if err := s.admit(r, &d.request); err != nil {
		unauthorized(w, err)
		return
	}
	span := s.config.Tracer.StartPart(r.Context(), traces.Identify)
	err := s.identify(r, d)
	span.End()
	if err != nil {
		fail(w, replaceStatus(w, http.StatusBadRequest, denialStatus), err.Error())
		return
	}
	s.warnOfConcurrency()
	if err := s.config.Engine.DecideMore(r.Context(), &d.attributes, &d.verdict); err != nil {
		s.respondError(w, r, err)
		return
	}
	s.respondProxy(w, r, d, denialStatus)
}

// identify reads the attributes of the proxy's client.
func (s *Server) identify(r *http.Request, d *decision) error {
	s.config.Identifier.Read(&d.request, &d.attributes)
	if !d.attributes.FromProxy() {
		s.warnUntrusted(r)
	} else if err := s.restoreRequest(d); err != nil {
		return err
	}
	return d.attributes.Validate()
}

// admit checks the token of a proxy. It removes the token from request, because rules would treat it as the client's.
func (s *Server) admit(call, request *http.Request) error {
	if s.config.Token == nil {
		return nil
	}
	authorization := call.Header.Get("Authorization")
	if token := call.Header.Get(tokenHeader); token != "" && (authorization == "" || s.config.Token.Is(token)) {
		ctx := call.Context()
		return s.tokens.Check(ctx, token, service.ParseAddr(call.RemoteAddr), service.AuthenticatedFlag(ctx))
	}
	// If there is an Authorization header, a wrong X-Headgate-Token may come from the client. It must not count as a
	// wrong token of the proxy, so check only Authorization.
	if err := s.login(call, authorization); err != nil {
		return err
	}
	request.Header = request.Header.Clone()
	delete(request.Header, "Authorization")
	return nil
}

// parseDenialStatus parses a query such as status=403, which sets the status for denials. It returns 0 for any other
// query, because some proxies, for example Caddy, append the client's query.
func parseDenialStatus(query string) int {
	switch query {
	case "status=401", "status=403", "status=429", "status=503":
		status, _ := strconv.Atoi(query[len("status="):]) // cannot fail for these queries
		return status
	default:
		return 0
	}
}

// warnUntrusted logs a call from a peer that acts as a proxy but is not trusted.
func (s *Server) warnUntrusted(r *http.Request) {
	for _, name := range [...]string{
		forwardedURI, originalURI, originalURL, forwardedMethod, originalMethod, "X-Forwarded-For",
	} {
		if len(r.Header[name]) > 0 && s.proxyWarnings.Allow(time.Minute) {
			s.config.Logger.Warn("forward-auth called by an untrusted proxy: its headers are ignored",
				"peer", r.RemoteAddr, "want", "its address in trusted_proxies")
			return
		}
	}
}

// restoreRequest rebuilds the request that a trusted proxy describes. If two headers describe the same part of the
// request, they must be equal, because one of them may come from the client.
func (s *Server) restoreRequest(d *decision) error {
	header, r := d.request.Header, &d.request
	method, err := onlyValue(header, forwardedMethod, originalMethod)
	if err != nil {
		return err
	}
	if method != "" {
		r.Method = method
	}
	host, err := onlyValue(header, forwardedHost)
	if err != nil {
		return err
	}
	target, err := onlyValue(header, forwardedURI, originalURI)
	if err != nil {
		return err
	}
	fullURL, err := onlyValue(header, originalURL)
	if err != nil {
		return err
	}
	if fullURL != "" {
		urlHost, urlTarget, err := splitURL(fullURL)
		switch {
		case err != nil:
			return err
		case host != "" && !strings.EqualFold(host, urlHost):
			return conflict(originalURL, forwardedHost)
		case target != "" && target != urlTarget:
			return conflict(originalURL, forwardedURI)
		}
		host, target = urlHost, urlTarget
	}
	if host != "" {
		r.Host = host
	}
	if target == "" {
		if s.proxyWarnings.Allow(time.Minute) {
			s.config.Logger.Warn("forward-auth called without the requested path, so no rule for a path matches",
				"peer", r.RemoteAddr, "want", "X-Forwarded-Uri or X-Original-URI")
		}
	} else if err := d.setTarget(target); err != nil {
		return err
	}
	s.config.Identifier.Read(r, &d.attributes)
	return nil
}

// setTarget sets the request's target. It parses the target like net/http.
func (d *decision) setTarget(target string) error {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return errTarget
	}
	if u.Host != "" {
		if d.request.Host != "" && len(d.request.Header[forwardedHost]) > 0 && !strings.EqualFold(u.Host, d.request.Host) {
			return conflict(forwardedURI, forwardedHost)
		}
		d.request.Host = u.Host
	}
	d.url = *u
	d.request.URL = &d.url
	return nil
}

var errTarget = errors.New("the URI of the proxy's request cannot be parsed")

// onlyValue returns the value that all headers with these names have, or "" if there is none. If the values differ, it
// returns an error.
func onlyValue(header http.Header, names ...string) (string, error) {
	value, from := "", ""
	for _, name := range names {
		for _, line := range header[name] {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || line == value:
			case value == "":
				value, from = line, name
			default:
				return "", conflict(from, name)
			}
		}
	}
	return value, nil
}

// A conflictError reports two headers that describe different requests.
type conflictError struct{ first, second string }

func (e *conflictError) Error() string {
	if e.first == e.second {
		return e.first + " occurs twice with different values"
	}
	return e.first + " and " + e.second + " differ, and only one of them can be from the proxy"
}

func conflict(first, second string) error { return &conflictError{first, second} }

// splitURL returns the host of a URL and the part after it.
func splitURL(fullURL string) (host, rest string, err error) {
	_, rest, ok := strings.Cut(fullURL, "://")
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

// respondProxy responds with the verdict, after its delay.
func (s *Server) respondProxy(w http.ResponseWriter, r *http.Request, d *decision, denialStatus int) {
	v := &d.verdict
	h := w.Header()
	retryAfter := s.setFields(h, d, s.config.Now())
	h["Cache-Control"] = noStore
	if v.Action == engine.Delay {
		service.Hold(w, v.Delay)
		if err := v.Wait(r.Context()); err != nil {
			fail(w, http.StatusServiceUnavailable, "Canceled while waiting for the delay.")
			return
		}
	}
	if v.Action.Passes() {
		w.WriteHeader(http.StatusOK)
		return
	}
	status := replaceStatus(w, v.Status, denialStatus)
	respondProblem(w, status, httplimit.AppendProblem(nil, v, status, retryAfter))
}

// replaceStatus returns the status for a denial. If the proxy has requested a status, it returns that status, and adds
// a header with the original one.
func replaceStatus(w http.ResponseWriter, status, requested int) int {
	if requested == 0 {
		return status
	}
	w.Header()["X-Headgate-Status"] = []string{strconv.Itoa(status)}
	return requested
}

// warnOfConcurrency logs the rules with concurrency limits, which forward-auth ignores. It does so once per rule set.
func (s *Server) warnOfConcurrency() {
	set := s.config.Engine.Rules()
	before := s.warnedRules.Load()
	if set == before || !s.warnedRules.CompareAndSwap(before, set) {
		return
	}
	var ids []string
	for _, r := range set.Rules() {
		if hasConcurrency(r) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) > 0 {
		const maxListed = 10
		s.config.Logger.Warn("forward-auth does not learn when requests end, so it ignores concurrency limits",
			"rules", ids[:min(len(ids), maxListed)], "count", len(ids))
	}
}

func hasConcurrency(r *rules.Rule) bool {
	return slices.ContainsFunc(r.Limits, func(l rules.Limit) bool { return l.Algorithm == headgate.Concurrency })
}
