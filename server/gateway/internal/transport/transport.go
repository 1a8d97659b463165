// Package transport sends requests to an upstream over net/http: requests for HTTP/2 upstreams, upgrades, and
// health checks. Package upstream sends plain HTTP/1.1 requests. Errors of Forward and Upgrade are of type
// *upstream.Error, like those of package upstream.
package transport

import (
	"cmp"
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
	"time"

	"github.com/headgate/headgate/server/gateway/upstream"
)

// Options configure a Transport. All fields but TLS and DisableKeepAlives are required.
type Options struct {
	Target Target
	// TLS is the configuration for a Target with TLS.
	TLS *tls.Config
	// DialTimeout is the maximum time to connect. With HTTP/2, a ping without a response for this time closes the
	// connection.
	DialTimeout time.Duration
	// HeaderTimeout is the maximum wait for the header of a response. With HTTP/2, it also limits the time without
	// progress while data is written.
	HeaderTimeout time.Duration
	// StallTimeout limits each wait for more of a response's body.
	StallTimeout time.Duration
	// IdleTimeout is the time for which an idle connection is kept, and MaxIdle the maximum number of idle connections.
	IdleTimeout time.Duration
	MaxIdle     int
	// DisableKeepAlives opens a connection for each HTTP/1.1 request.
	DisableKeepAlives bool
}

// A Transport sends requests to one upstream. It is safe for concurrent use.
type Transport struct {
	rt     *http.Transport
	target Target
	stall  time.Duration
}

// New returns a Transport. It connects to the upstream when it gets the first request.
func New(o Options) *Transport {
	t := o.Target
	dialer := net.Dialer{Timeout: o.DialTimeout}
	protocols := new(http.Protocols)
	switch {
	case t.HTTP2 && t.TLS:
		protocols.SetHTTP2(true)
	case t.HTTP2:
		protocols.SetUnencryptedHTTP2(true)
	default:
		protocols.SetHTTP1(true)
	}
	h := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, t.Network, t.Address)
		},
		TLSHandshakeTimeout:    o.DialTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        o.IdleTimeout,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdle,
		MaxResponseHeaderBytes: upstream.DefaultMaxHeaderBytes,
		DisableCompression:     true, // the client's Accept-Encoding is forwarded unchanged
		DisableKeepAlives:      o.DisableKeepAlives && !t.HTTP2,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
		Protocols:              protocols,
		HTTP2: &http.HTTP2Config{
			// Pings detect a dead connection before requests on it time out.
			SendPingTimeout: 15 * time.Second, PingTimeout: o.DialTimeout, WriteByteTimeout: o.HeaderTimeout,
		},
	}
	if o.TLS != nil {
		h.TLSClientConfig = o.TLS.Clone()
	}
	return &Transport{rt: h, target: t, stall: o.StallTimeout}
}

// Close closes idle connections.
func (t *Transport) Close() error {
	t.rt.CloseIdleConnections()
	return nil
}

func (t *Transport) scheme() string {
	if t.target.TLS {
		return "https"
	}
	return "http"
}

// Forward sends the client's request r to the upstream, with the changes in head, and the response to w.
func (t *Transport) Forward(
	ctx context.Context, w http.ResponseWriter, r *http.Request, head upstream.Head,
) (upstream.Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	interim := &interimResponses{w: w}
	out := t.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: interim.send}), r, &head)
	response, err := t.rt.RoundTrip(out)
	interim.stop()
	if err != nil {
		return upstream.Outcome{}, t.sendError(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return upstream.Outcome{Status: response.StatusCode}, t.NewError(upstream.FaultUpgrade, opRead, errSwitched)
	}
	return t.relay(ctx, cancel, w, response)
}

// A ConnectFunc takes over the connection to an upstream that has switched protocols.
type ConnectFunc func(response *http.Response, conn io.ReadWriteCloser) (upstream.Outcome, error)

// Upgrade sends the client's request r to the upstream, with the changes in head, and asks the upstream to switch to a
// protocol. If the upstream does so, Upgrade returns the result of connect. Otherwise it sends the response to w. The
// connection lasts until connect returns.
func (t *Transport) Upgrade(
	w http.ResponseWriter, r *http.Request, head *upstream.Head, protocol string, connect ConnectFunc,
) (upstream.Outcome, error) {
	// The server cancels r.Context() when connect hijacks the client's connection. The upgraded connection must outlive
	// that, so ctx is not derived from r.Context(): AfterFunc forwards the cancellation only until connect is called.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	stopForwarding := context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })
	defer stopForwarding()
	out := t.request(ctx, r, head)
	out.Header["Connection"] = []string{"Upgrade"}
	out.Header["Upgrade"] = []string{protocol}
	response, err := t.rt.RoundTrip(out)
	if err != nil {
		return upstream.Outcome{}, t.sendError(r.Context(), err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return t.relay(ctx, cancel, w, response)
	}
	if !strings.EqualFold(response.Header.Get("Upgrade"), protocol) {
		outcome := upstream.Outcome{Status: response.StatusCode}
		return outcome, t.NewError(upstream.FaultResponse, "upgrade", errOtherProtocol)
	}
	conn, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		return upstream.Outcome{}, t.NewError(upstream.FaultUpgrade, "upgrade", errNotWritable)
	}
	stopForwarding() // connect owns both connections from now on
	return connect(response, conn)
}

// request returns the request for the upstream: r with the changes in head. It has a copy of the header, because
// net/http may read the header after the client's request has ended.
func (t *Transport) request(ctx context.Context, r *http.Request, head *upstream.Head) *http.Request {
	out := &http.Request{
		Method: r.Method, Host: head.Host, Header: r.Header.Clone(), Body: r.Body, ContentLength: r.ContentLength,
		Trailer: r.Trailer,
		URL: &url.URL{
			Scheme: t.scheme(), Host: t.target.Host, Path: r.URL.Path, RawPath: r.URL.RawPath,
			RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery,
		},
	}
	if out.Host == "" {
		out.Host = r.Host
	}
	if out.ContentLength == 0 {
		out.Body = nil
	}
	// Fields replace the headers of the same names. A field without a value only removes the header.
	for _, f := range head.Fields {
		delete(out.Header, textproto.CanonicalMIMEHeaderKey(f.Name))
	}
	for _, f := range head.Fields {
		if f.Value != "" {
			out.Header.Add(f.Name, f.Value)
		}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // otherwise net/http adds its own
	}
	return out.WithContext(ctx)
}

// CheckHealth sends a GET request. A status of 200 to 399 is a success. host is the Host header. If it is empty,
// Target.Host is used.
func (t *Transport) CheckHealth(ctx context.Context, path, host string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.scheme()+"://"+t.target.Host+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	r.Host = cmp.Or(host, t.target.Host)
	r.Header.Set("User-Agent", "headgate-health")
	response, err := t.rt.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be reused
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return fmt.Errorf("check health: the response to %s is %s", path, response.Status)
	}
	return nil
}

// Reasons why a request fails.
var (
	errStalled       = errors.New("the upstream has stopped sending its response")
	errSwitched      = errors.New("the upstream switched protocols although no upgrade was requested")
	errOtherProtocol = errors.New("the upstream switched to a protocol other than the requested one")
	errNotWritable   = errors.New("the upstream's connection cannot be written to")
)

// A BodyError is an error while reading a request's body from the client.
type BodyError struct{ Err error }

func (e *BodyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *BodyError) Unwrap() error { return e.Err }

// A writeError is an error while writing the response to the client.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

const opRead = "read the response"

// NewError returns an *upstream.Error for this upstream. op is what was being done.
func (t *Transport) NewError(f upstream.Fault, op string, err error) error {
	return &upstream.Error{Fault: f, Op: op, Address: t.target.Address, Err: err}
}

// sendError returns an *upstream.Error for a request that got no response.
func (t *Transport) sendError(ctx context.Context, err error) error {
	const op = "send the request"
	var dial *net.OpError
	var n net.Error
	var body *BodyError
	switch {
	case ctx.Err() != nil:
		return t.contextError(ctx, op)
	case errors.As(err, &body):
		return t.NewError(upstream.FaultBody, "read the request's body", body.Err)
	case upstream.IsTooManyOpenFiles(err):
		return t.NewError(upstream.FaultBusy, "connect", err)
	case errors.As(err, &dial) && dial.Op == "dial", isHandshakeError(err):
		return t.NewError(upstream.FaultDial, "connect", err)
	case errors.As(err, &n) && n.Timeout():
		return t.NewError(upstream.FaultTimeout, op, err)
	default:
		return t.NewError(upstream.FaultBroken, op, err)
	}
}

// relayError returns an *upstream.Error for a response whose body could not be relayed.
func (t *Transport) relayError(ctx context.Context, err error) error {
	var write *writeError
	var body *BodyError
	switch {
	case ctx.Err() != nil:
		return t.contextError(ctx, opRead)
	case errors.As(err, &write):
		return t.NewError(upstream.FaultClient, "send the response to the client", err)
	case errors.As(err, &body):
		return t.NewError(upstream.FaultBody, "read the request's body", body.Err)
	default:
		return t.NewError(upstream.FaultBroken, opRead, err)
	}
}

// contextError returns an *upstream.Error for a context that has ended: because the upstream was too slow, or because
// the client has disconnected.
func (t *Transport) contextError(ctx context.Context, op string) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errStalled) || errors.Is(cause, context.DeadlineExceeded) {
		return t.NewError(upstream.FaultTimeout, op, cause)
	}
	return t.NewError(upstream.FaultClient, op, cause)
}

// isHandshakeError reports whether an error comes from the TLS handshake. In that case no part of the request was
// sent.
func isHandshakeError(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &record)
}
