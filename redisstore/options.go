package redisstore

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/redisurl"
)

// What the options are unless told otherwise.
const (
	DefaultPrefix      = "hg"
	DefaultDialTimeout = time.Second
	DefaultHangTimeout = time.Second
)

const (
	maxPrefix  = 64
	minSecret  = 16
	minTimeout = redisurl.MinTimeout
)

// Options are the settings of a Store. The zero Options are good.
type Options struct {
	// Prefix begins all keys of this store. Stores with the same prefix and secret share their limits. Letters, digits and
	// . - _ : / only, at most 64 bytes. Default DefaultPrefix.
	Prefix string
	// Secret keys the hash that stands for clients in Redis, so that who can read the keys cannot tell whose they are, unless
	// he can read the secret too. All stores that share limits need the same. At least 16 bytes. Default one that is made by
	// chance once, and kept in Redis.
	Secret []byte
	// TLSConfig is for URLs that ask for TLS; what the URL says of it wins. Default the system's certificates.
	TLSConfig *tls.Config
	// StartAway makes Open succeed although the servers cannot be reached yet. Decisions then fail with ErrAway until they
	// can. Open still fails for what waiting does not cure, such as a wrong password. Default false.
	StartAway bool
	// ReadReplicas lets checks that only look be answered by replicas, which may be behind, in a cluster or behind sentinels
	// of Redis 7 or later. Decisions never are. Default false.
	ReadReplicas bool
	// DialTimeout is how long connecting to a server may take, with TLS and login. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// HangTimeout is how long a server may be silent although it was asked before its connection is given up and replaced; a
	// quarter of it more, at most. Callers don't wait that long: they return when their context ends, and soon new ones fail
	// at once. Default DefaultHangTimeout.
	HangTimeout time.Duration
	// Logger hears of servers that come and go and of settings that break limits. Default slog.Default().
	Logger *slog.Logger
	// Now, if set, is used for decisions instead of the servers' clocks. It is for tests.
	Now func() time.Time
}

func (o *Options) validate() error {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = DefaultDialTimeout
	}
	if o.HangTimeout == 0 {
		o.HangTimeout = DefaultHangTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case len(o.Prefix) > maxPrefix || strings.ContainsFunc(o.Prefix, notInPrefix):
		return fmt.Errorf("redisstore: Options.Prefix %s: want letters, digits and . - _ : / only, at most %d", strconv.Quote(o.Prefix[:min(len(o.Prefix), 64)]), maxPrefix)
	case len(o.Secret) > 0 && len(o.Secret) < minSecret:
		return fmt.Errorf("redisstore: Options.Secret has %d bytes: want at least %d, or none", len(o.Secret), minSecret)
	case o.DialTimeout < minTimeout:
		return fmt.Errorf("redisstore: Options.DialTimeout %v: want at least %v, or 0 for %v", o.DialTimeout, minTimeout, DefaultDialTimeout)
	case o.HangTimeout < minTimeout:
		return fmt.Errorf("redisstore: Options.HangTimeout %v: want at least %v, or 0 for %v", o.HangTimeout, minTimeout, DefaultHangTimeout)
	}
	return nil
}

// notInPrefix is true for braces above all, which would put all keys into one slot of a cluster.
func notInPrefix(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".-_:/", r)
}
