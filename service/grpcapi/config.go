package grpcapi

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/service"
)

// What a Config holds unless told otherwise.
const (
	DefaultMaxMessage  = 1 << 20
	DefaultMaxBatch    = 1000
	DefaultMaxStreams  = 250
	DefaultMaxHeader   = 16 << 10
	DefaultMinPing     = 10 * time.Second
	DefaultIdleTimeout = 15 * time.Minute
	DefaultCallTimeout = time.Minute
)

// Config is what a Server is made of. Only Engine must be given.
type Config struct {
	// Engine decides.
	Engine *engine.Engine
	// Identifier gives what callers say of their clients the form that rules know. Default one of the zero identity.Config.
	Identifier *identity.Identifier
	// Store is what headgate.v1.Store hands out. Default nil: it is not offered.
	Store headgate.Limiter
	// Token is what callers must show. Default nil: everybody may call.
	Token *service.Token
	// AdminToken is good for everything that Token is good for. Without any of them nobody may reset. Default none.
	AdminToken *service.Token
	// Logins counts wrong tokens. It must be given with a Token or AdminToken.
	Logins *service.Logins
	// TLS has the certificates. Default nil: no TLS.
	TLS *TLS
	// MaxMessage is how large a message may be, in bytes. Default DefaultMaxMessage.
	MaxMessage int
	// MaxBatch is how many requests, or checks for the store, there may be in one call. Default DefaultMaxBatch.
	MaxBatch int
	// MaxStreams is how many calls may be under way on one connection; more wait at the client. Default DefaultMaxStreams.
	MaxStreams int
	// MaxHeader is how long the metadata of a call may be, in bytes. Default DefaultMaxHeader.
	MaxHeader int
	// MaxConns is how many connections may be open at once; more are closed as they come. Default service.DefaultMaxConns.
	MaxConns int
	// Conns bounds the connections of one address and the file descriptors. Default a quarter of MaxConns for an address, but
	// at least 64, and any number of descriptors.
	Conns service.ConnLimits
	// Parallel is how many requests of one batch or stream are decided at once: 1 for a store in this process, some dozens for
	// one behind a network. With more than one, requests of the same batch or stream about the same client may be decided in
	// any order. Default 1.
	Parallel int
	// MinPing is how often a client may ping; one that pings more often is disconnected. Default DefaultMinPing.
	MinPing time.Duration
	// IdleTimeout is after how long without a call a client is asked to connect anew when it needs to. Default
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// CallTimeout is how long a call that is no stream may take, from its header to its answer, if the client has set it no
	// deadline. Default DefaultCallTimeout.
	CallTimeout time.Duration
	// Logger hears of faults, at most once a second, and of certificates. Default slog's.
	Logger *slog.Logger
	// Now is the clock by which reset_timestamp is told. Default the system's.
	Now func() time.Time
}

// TLS are the certificates of a server.
type TLS = service.TLS

// CertificateFiles is a certificate and its key.
type CertificateFiles = service.CertificateFiles

var errNoEngine = errors.New("grpcapi: no Engine: want one of engine.New")

// fill checks the Config and sets what is missing.
func (c *Config) fill() error {
	if c.Engine == nil {
		return errNoEngine
	}
	if c.Identifier == nil {
		id, err := identity.New(identity.Config{})
		if err != nil {
			return err
		}
		c.Identifier = id
	}
	for _, n := range []struct {
		name            string
		value           *int
		or, least, most int
	}{
		{"MaxMessage", &c.MaxMessage, DefaultMaxMessage, 1 << 10, 64 << 20},
		{"MaxBatch", &c.MaxBatch, DefaultMaxBatch, 1, 100_000},
		{"MaxStreams", &c.MaxStreams, DefaultMaxStreams, 1, 1 << 20},
		{"MaxHeader", &c.MaxHeader, DefaultMaxHeader, 1 << 10, 1 << 20},
		{"MaxConns", &c.MaxConns, service.DefaultMaxConns, 1, 1 << 30},
		{"Parallel", &c.Parallel, 1, 1, 1000},
	} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < n.least || *n.value > n.most {
			return fmt.Errorf("grpcapi: %s %d: want %d to %d, or 0 for the default", n.name, *n.value, n.least, n.most)
		}
	}
	for _, n := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"MinPing", &c.MinPing, DefaultMinPing},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout},
		{"CallTimeout", &c.CallTimeout, DefaultCallTimeout},
	} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < time.Millisecond {
			return fmt.Errorf("grpcapi: %s %s: want at least 1ms, or 0 for the default", n.name, *n.value)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
