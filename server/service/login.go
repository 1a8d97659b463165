package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/internal/logins"
)

// Logins counts wrong tokens by address and refuses addresses with too many. Listeners of one process should share
// one. Create it with NewLogins.
type Logins = logins.Throttle

// LoginOptions are the settings of Logins. The zero value is usable.
type LoginOptions = logins.Options

// NewLogins returns Logins. Close it after use.
func NewLogins(o LoginOptions) (*Logins, error) { return logins.New(o) }

// Tokens are the tokens that a listener accepts.
type Tokens struct {
	// Listener is the listener's name in the log.
	Listener string
	// Token is required from callers, nil for none. Admin is accepted too; nil for none.
	Token, Admin *Token
	// Logins counts wrong tokens. Required with a token.
	Logins *Logins
}

// Any reports whether a token is configured.
func (t *Tokens) Any() bool { return t.Token != nil || t.Admin != nil }

// Validate returns an error if there is a token without Logins.
func (t *Tokens) Validate() error {
	if t.Any() && t.Logins == nil {
		return errNoLogins
	}
	return nil
}

var errNoLogins = errors.New("service: a Token without Logins: want one of NewLogins to count wrong tokens")

// ErrWrongToken is returned by Tokens.Check for an invalid token.
var ErrWrongToken = errors.New("the token is wrong")

// A TooManyLoginsError is returned by Tokens.Check for an address with too many wrong tokens.
type TooManyLoginsError struct{ RetryAfter time.Duration }

func (e *TooManyLoginsError) Error() string {
	return fmt.Sprintf("too many wrong tokens from this address: try again in %d s", e.Seconds())
}

// Seconds is RetryAfter in whole seconds, rounded up.
func (e *TooManyLoginsError) Seconds() int64 {
	return int64((e.RetryAfter + time.Second - 1) / time.Second)
}

// Check returns nil if a token is valid. from is the caller's address. proven, if not nil, belongs to the connection:
// once a connection has shown Token, Token stays valid on it even while its address is refused, so that a caller with
// a wrong token does not lock out others behind the same address.
func (t *Tokens) Check(ctx context.Context, token string, from netip.Addr, proven *atomic.Bool) error {
	if retry := t.Logins.Denied(ctx, t.Listener, logins.Guess, from); retry > 0 {
		if proven != nil && proven.Load() && t.Token != nil && t.Token.Is(token) {
			return nil
		}
		return &TooManyLoginsError{retry}
	}
	switch {
	case t.Token != nil && t.Token.Is(token):
		if proven != nil && !proven.Load() {
			proven.Store(true)
		}
		return nil
	case t.Admin != nil && t.Admin.Is(token):
		return nil
	}
	if retry := t.Logins.Failed(ctx, t.Listener, logins.Guess, from); retry > 0 {
		return &TooManyLoginsError{retry}
	}
	return ErrWrongToken
}

// CheckBearer is Check for the value of an Authorization header. A value without a bearer token is ErrWrongToken, and
// is not counted, because nothing was guessed.
func (t *Tokens) CheckBearer(ctx context.Context, authorization string, from netip.Addr, proven *atomic.Bool) error {
	token, ok := bearer(authorization)
	if !ok {
		return ErrWrongToken
	}
	return t.Check(ctx, token, from, proven)
}

// bearer returns the token of an Authorization header.
func bearer(authorization string) (token string, ok bool) {
	name, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(name, scheme) && token != ""
}

// AddrOf returns the IP address of a peer. It is invalid for a peer without one, as over a Unix socket.
func AddrOf(peer net.Addr) netip.Addr {
	if tcp, ok := peer.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if peer == nil {
		return netip.Addr{}
	}
	return ParseAddr(peer.String())
}

// ParseAddr returns the IP address of host:port, such as http.Request.RemoteAddr.
func ParseAddr(hostPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// provenKey is the context key of a connection's proven flag.
type provenKey struct{}

// withProven adds a proven flag to the context of a connection.
func withProven(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, provenKey{}, new(atomic.Bool))
}

// Proven returns the flag for Tokens.Check of the HTTPServer connection of a request; nil if there is none.
func Proven(ctx context.Context) *atomic.Bool {
	proven, _ := ctx.Value(provenKey{}).(*atomic.Bool)
	return proven
}
