// Package outbound sends HTTP requests to URLs that callers of the rules service have registered. Callers are not
// trusted: connections are limited to allowed addresses, redirects are not followed, and errors for callers reveal
// nothing about the internal network.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Options configure a client.
type Options struct {
	// Allow returns an error for an address that must not be connected to. It is called after the DNS lookup, so a name
	// cannot lead to a forbidden address.
	Allow func(netip.Addr) error
	// Timeout is the timeout of each of three steps: the connection, the TLS handshake, and the wait for response headers.
	Timeout time.Duration
	// TLS verifies servers. Default the system's settings.
	TLS *tls.Config
	// MaxIdleConns and MaxIdleConnsPerHost are fields of http.Transport.
	MaxIdleConns, MaxIdleConnsPerHost int
}

// NewClient returns an HTTP client. Each request should have a deadline, because Timeout does not limit the body.
func NewClient(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: o.Timeout, Control: func(_, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err == nil {
			err = o.Allow(target.Addr())
		}
		if err != nil {
			return &forbiddenError{err}
		}
		return nil
	}}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: o.TLS,
			TLSHandshakeTimeout: o.Timeout, ResponseHeaderTimeout: o.Timeout, MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns: o.MaxIdleConns, MaxIdleConnsPerHost: o.MaxIdleConnsPerHost, IdleConnTimeout: 30 * time.Second,
		},
	}
}

// A forbiddenError is the error of Options.Allow.
type forbiddenError struct{ reason error }

func (e *forbiddenError) Error() string { return e.reason.Error() }

// ErrTimeout means that the server did not respond in time.
var ErrTimeout = errors.New("it did not respond in time")

// The other errors for callers.
var (
	errUnknownHost = errors.New("host name not found")
	errRefused     = errors.New("it refused the connection")
	errTLS         = errors.New("its certificate is not valid, or it does not speak TLS")
	errUnreachable = errors.New("it could not be reached")
)

// PublicError converts an error of a client to one that callers may see, without IP addresses and DNS servers.
func PublicError(err error) error {
	var (
		forbidden   *forbiddenError
		timeout     net.Error
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &forbidden):
		return forbidden.reason
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ErrTimeout
	case errors.As(err, &dns):
		return errUnknownHost
	case errors.Is(err, syscall.ECONNREFUSED):
		return errRefused
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &record):
		return errTLS
	default:
		return errUnreachable
	}
}
