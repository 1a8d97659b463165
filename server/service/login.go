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

// Logins throttles attempts to guess a token: it counts wrong tokens by address, and refuses addresses that have sent
// too many. All listeners of a process should share one Logins, so that a wrong token counts for all listeners. Create
// it with NewLogins.
type Logins = logins.Throttle

// LoginOptions are the settings of Logins. The zero value is usable.
type LoginOptions = logins.Options

// NewLogins returns a Logins. It must be closed.
func NewLogins(o LoginOptions) (*Logins, error) { return logins.New(o) }

// Tokens configures the tokens that a listener accepts.
type Tokens struct {
	// Listener is the name of the listener in log lines.
	Listener string
	// Token is the token that callers must send. If it is nil, callers need no token.
	Token *Token
	// Admin is the administrator's token, which is accepted wherever Token is. Nil if there is none.
	Admin *Token
	// Logins counts wrong tokens. Required if Token or Admin is set.
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

var errNoLogins = errors.New("service: a Token needs Logins to count wrong tokens; create it with NewLogins")

// ErrWrongToken is returned by Tokens.Check for an invalid token.
var ErrWrongToken = errors.New("the token is wrong")

// A TooManyLoginsError is returned by Tokens.Check for an address that has sent too many wrong tokens.
type TooManyLoginsError struct{ RetryAfter time.Duration }

func (e *TooManyLoginsError) Error() string {
	return fmt.Sprintf("too many wrong tokens from this address: try again in %d s", e.Seconds())
}

// Seconds returns RetryAfter in whole seconds, rounded up.
func (e *TooManyLoginsError) Seconds() int64 {
	return int64((e.RetryAfter + time.Second - 1) / time.Second)
}

// Check returns nil if the token sent by a caller is valid. addr is the caller's IP address.
//
// authenticated is a flag of the caller's connection, or nil. Check sets it when the connection has sent t.Token. From
// then on, Check accepts t.Token on this connection even while the address is refused, so that callers with the same
// address that send wrong tokens do not lock out this one.
func (t *Tokens) Check(ctx context.Context, sent string, addr netip.Addr, authenticated *atomic.Bool) error {
	// Each wrong token counts as a guess, whatever its length.
	if retryAfter := t.Logins.Denied(ctx, t.Listener, logins.Guess, addr); retryAfter > 0 {
		if authenticated != nil && authenticated.Load() && t.Token != nil && t.Token.Is(sent) {
			return nil
		}
		return &TooManyLoginsError{retryAfter}
	}
	switch {
	case t.Token != nil && t.Token.Is(sent):
		if authenticated != nil && !authenticated.Load() {
			authenticated.Store(true)
		}
		return nil
	case t.Admin != nil && t.Admin.Is(sent):
		return nil
	}
	if retryAfter := t.Logins.Failed(ctx, t.Listener, logins.Guess, addr); retryAfter > 0 {
		return &TooManyLoginsError{retryAfter}
	}
	return ErrWrongToken
}

// CheckBearer calls Check with the bearer token of an Authorization header. If the header has no bearer token, it
// returns ErrWrongToken without counting a wrong token, because the caller did not guess one.
func (t *Tokens) CheckBearer(
	ctx context.Context, authorization string, addr netip.Addr, authenticated *atomic.Bool,
) error {
	token, ok := bearerToken(authorization)
	if !ok {
		return ErrWrongToken
	}
	return t.Check(ctx, token, addr, authenticated)
}

// bearerToken returns the token of an Authorization header. ok is false if there is none.
func bearerToken(authorization string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// AddrOf returns the IP address of a peer. If the peer has none, for example with a Unix socket, it returns the zero
// Addr, which is invalid.
func AddrOf(peer net.Addr) netip.Addr {
	if tcp, ok := peer.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if peer == nil {
		return netip.Addr{}
	}
	return ParseAddr(peer.String())
}

// ParseAddr returns the IP address in a string of the form host:port, such as http.Request.RemoteAddr. If there is
// none, it returns the zero Addr.
func ParseAddr(hostPort string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// authenticatedKey is the context key of the flag that AuthenticatedFlag returns.
type authenticatedKey struct{}

// withAuthenticated adds a new flag to the context of a connection.
func withAuthenticated(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, authenticatedKey{}, new(atomic.Bool))
}

// AuthenticatedFlag returns the flag of a request's connection that Tokens.Check needs. ctx is the request's context.
// AuthenticatedFlag returns nil if the request was not received by an HTTPServer.
func AuthenticatedFlag(ctx context.Context) *atomic.Bool {
	authenticated, _ := ctx.Value(authenticatedKey{}).(*atomic.Bool)
	return authenticated
}
