package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/gateway/upstream"
)

// A transport is the leg that goes by net/http: for HTTP/2, for upgrades, and for health checks.
type transport struct {
	rt     *http.Transport
	target target
	stall  time.Duration // how long the upstream may be silent in an answer
}

// Bounds of answers that come by net/http. Those of package upstream have the same.
const maxAnswerHeader = upstream.DefaultMaxHeaderBytes

func newTransport(rt *route, t target, security *tls.Config) *transport {
	dialer := net.Dialer{Timeout: rt.config.DialTimeout}
	protocols := new(http.Protocols)
	switch {
	case t.http2 && t.secure:
		protocols.SetHTTP2(true)
	case t.http2:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	h := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, t.network, t.address)
		},
		TLSHandshakeTimeout:    rt.config.DialTimeout,
		ResponseHeaderTimeout:  rt.config.ResponseHeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        rt.config.UpstreamIdle,
		MaxIdleConns:           rt.config.UpstreamConns,
		MaxIdleConnsPerHost:    rt.config.UpstreamConns,
		MaxResponseHeaderBytes: maxAnswerHeader,
		DisableCompression:     true, // what the client asks for goes on as it is
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{
			// A connection that has died in silence is noticed, rather than used until it times out.
			SendPingTimeout: 15 * time.Second, PingTimeout: rt.config.DialTimeout,
			WriteByteTimeout: rt.config.ResponseHeaderTimeout,
		},
	}
	if security != nil {
		h.TLSClientConfig = security.Clone()
	}
	return &transport{rt: h, target: t, stall: rt.stall}
}

func (t *transport) scheme() string {
	if t.target.secure {
		return "https"
	}
	return "http"
}

// base is the beginning of URLs at the upstream.
func (t *transport) base() string { return t.scheme() + "://" + t.target.host }

// Close closes idle connections.
func (t *transport) Close() error {
	t.rt.CloseIdleConnections()
	return nil
}

func (t *transport) fault(f upstream.Fault, op string, err error) error {
	return &upstream.Error{Fault: f, Op: op, Address: t.target.address, Err: err}
}

// errStalled is the cause of a context that ends because an upstream has fallen silent.
var errStalled = errors.New("the upstream has fallen silent in its answer")

// Forward sends a request to the upstream, and its answer to w.
func (t *transport) Forward(ctx context.Context, w http.ResponseWriter, r *http.Request, head upstream.Head) (upstream.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interim := &interim{w: w}
	out := t.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: interim.send}), r, &head)
	answer, err := t.rt.RoundTrip(out)
	interim.stop()
	if err != nil {
		return upstream.Outcome{}, t.explain(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return upstream.Outcome{Status: answer.StatusCode}, t.fault(upstream.FaultUpgrade, "read the response", errSwitched)
	}
	outcome := upstream.Outcome{Status: answer.StatusCode, Sent: true}
	stalls := time.AfterFunc(t.stall, func() { cancel(errStalled) })
	defer stalls.Stop()
	announced := writeAnswer(w, answer)
	outcome.Bytes, err = t.copyBody(w, answer, stalls)
	if err != nil {
		return outcome, t.explainBody(ctx, err)
	}
	writeTrailers(w, answer.Trailer, announced)
	return outcome, nil
}

var errSwitched = errors.New("the upstream switched protocols unasked")

// request makes the request that is sent. It has a header of its own, since net/http may still look at it when the request is
// over.
func (t *transport) request(ctx context.Context, r *http.Request, head *upstream.Head) *http.Request {
	out := &http.Request{
		Method: r.Method, Host: head.Host, Header: r.Header.Clone(), Body: r.Body, ContentLength: r.ContentLength, Trailer: r.Trailer,
		URL: &url.URL{
			Scheme: t.scheme(), Host: t.target.host, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery,
		},
	}
	if out.Host == "" {
		out.Host = r.Host
	}
	if out.ContentLength == 0 {
		out.Body = nil
	}
	for _, f := range head.Fields {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		delete(out.Header, name)
	}
	for _, f := range head.Fields {
		if f.Value != "" {
			out.Header[textproto.CanonicalMIMEHeaderKey(f.Name)] = append(out.Header[textproto.CanonicalMIMEHeaderKey(f.Name)], f.Value)
		}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // or net/http would name itself
	}
	return out.WithContext(ctx)
}

// explain says where it lies that there was no answer.
func (t *transport) explain(ctx context.Context, err error) error {
	const op = "send the request"
	var dial *net.OpError
	var n net.Error
	var body *bodyError
	switch {
	case ctx.Err() != nil:
		return t.ended(ctx, op)
	case errors.As(err, &body):
		return t.fault(upstream.FaultBody, "read the request's body", body.err)
	case errors.As(err, &dial) && dial.Op == "dial", isTLS(err):
		return t.fault(upstream.FaultDial, "connect", err)
	case errors.As(err, &n) && n.Timeout():
		return t.fault(upstream.FaultTimeout, op, err)
	default:
		return t.fault(upstream.FaultBroken, op, err)
	}
}

func (t *transport) explainBody(ctx context.Context, err error) error {
	const op = "read the response"
	if ctx.Err() != nil {
		return t.ended(ctx, op)
	}
	var write *writeError
	if errors.As(err, &write) {
		return t.fault(upstream.FaultClient, "send the response to the client", err)
	}
	var body *bodyError
	if errors.As(err, &body) {
		return t.fault(upstream.FaultBody, "read the request's body", body.err)
	}
	return t.fault(upstream.FaultBroken, op, err)
}

// ended is the error of a context that has ended: by a deadline the upstream is too slow, otherwise the client has gone.
func (t *transport) ended(ctx context.Context, op string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errStalled) || errors.Is(cause, context.DeadlineExceeded) {
		return t.fault(upstream.FaultTimeout, op, cause)
	}
	return t.fault(upstream.FaultClient, op, cause)
}

// isTLS reports whether an error is of the handshake, before which nothing of a request is sent.
func isTLS(err error) bool {
	var unknown *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &unknown) || errors.As(err, &record)
}

// writeAnswer sends the header of an answer. It returns how many trailers it announces.
func writeAnswer(w http.ResponseWriter, answer *http.Response) (announced int) {
	h := w.Header()
	http1.RemoveHopByHop(answer.Header)
	for name, lines := range answer.Header {
		h[name] = append(h[name], lines...)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or the server in front would guess
	}
	if len(answer.Trailer) > 0 {
		names := make([]string, 0, len(answer.Trailer))
		for name := range answer.Trailer {
			names = append(names, name)
		}
		h["Trailer"] = append(h["Trailer"], strings.Join(names, ", "))
		delete(h, "Content-Length") // HTTP/1.1 has them after chunks alone
	}
	w.WriteHeader(answer.StatusCode)
	return len(answer.Trailer)
}

// A writeError is one of the client's connection.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copyBody sends the body of an answer: what may be a stream as it comes.
func (t *transport) copyBody(w http.ResponseWriter, answer *http.Response, stalls *time.Timer) (n int64, err error) {
	var flush func() error
	if answer.ContentLength < 0 || http1.IsEventStream(answer.Header.Get("Content-Type")) {
		flush = http.NewResponseController(w).Flush
		if err := flush(); err != nil { // the header is of use before the body
			return 0, &writeError{err: err}
		}
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		got, err := answer.Body.Read(*buffer)
		stalls.Reset(t.stall)
		if got > 0 {
			sent, failed := w.Write((*buffer)[:got])
			n += int64(sent)
			if failed == nil && flush != nil {
				failed = flush()
			}
			if failed != nil {
				return n, &writeError{err: failed}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, fmt.Errorf("after %d bytes: %w", n, err)
		}
	}
}

// writeTrailers sends what comes after the body.
func writeTrailers(w http.ResponseWriter, trailers http.Header, announced int) {
	if len(trailers) == 0 {
		return
	}
	if announced == 0 {
		// Only an answer in chunks can have them, and it is one once it is flushed.
		_ = http.NewResponseController(w).Flush() // the client may be gone; the server will notice
	}
	h := w.Header()
	for name, lines := range trailers {
		if len(trailers) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = append([]string(nil), lines...)
	}
}

// interim passes on answers of 1xx while the request is under way.
type interim struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	over bool
}

func (i *interim) send(code int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.over || code == http.StatusContinue { // the server says that itself, when the body is read
		return nil
	}
	h := i.w.Header()
	earlier := make(http.Header, len(header))
	http1.RemoveHopByHop(http.Header(header))
	for name, lines := range header {
		earlier[name] = h[name]
		h[name] = append(append([]string(nil), h[name]...), lines...)
	}
	i.w.WriteHeader(code)
	for name, lines := range earlier { // they were for this one only
		if lines == nil {
			delete(h, name)
		} else {
			h[name] = lines
		}
	}
	return nil
}

func (i *interim) stop() {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
}
