package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/redisurl"
)

// Defaults of Options.
const (
	DefaultPrefix      = "hg"
	DefaultDialTimeout = time.Second
	DefaultHangTimeout = time.Second
)

const (
	maxPrefix  = 64 // bytes
	minSecret  = 16 // bytes
	minTimeout = redisurl.MinTimeout
)

// Options are the settings of a Store. The zero value is ready to use.
type Options struct {
	// Prefix is the start of all Redis keys of the store. Stores with the same prefix and secret share their limits. A
	// prefix consists of letters, digits and . - _ : / and has at most 64 bytes. Default DefaultPrefix.
	Prefix string
	// Secret is the key of the hashes that identify clients in Redis. Without it, a reader of the Redis keys cannot
	// identify clients. All stores that share limits need the same secret, of at least 16 bytes. Default: a random secret,
	// which the first store writes to Redis.
	Secret []byte
	// SecondSecret is the new or the old secret while Secret is being replaced. Units are counted under both secrets, and
	// a check is allowed only if both counts allow it. So limits stay exact while some stores use one secret and others
	// use both. Remove the old secret only when all consumption that was counted under it alone has expired. With a
	// SecondSecret, each call to Redis is made twice. Default: none.
	SecondSecret []byte
	// TLSConfig is used if the URL selects TLS. Settings in the URL take precedence. Default: the system's certificates.
	TLSConfig *tls.Config
	// StartUnreachable makes Open succeed although the servers are unreachable. Decisions fail with ErrUnreachable until
	// they are reachable. Open still fails on permanent errors, such as a wrong password. Default false.
	StartUnreachable bool
	// ReadReplicas lets replicas decide peeks, in a cluster or behind sentinels, with Redis 7 or later. Replicas may lag
	// behind the primary. Calls that may take units always go to the primary. Default false.
	ReadReplicas bool
	// DialTimeout is the maximum time for connecting to a server, including TLS and login. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// HangTimeout is the longest time for which a server may be silent while calls are active. After that, at the latest
	// after another quarter of HangTimeout, the store replaces the connection. Callers do not wait that long: they return
	// when their context ends. Default DefaultHangTimeout.
	HangTimeout time.Duration
	// Logger logs lost and restored connections, and settings that break limits. Default slog.Default().
	Logger *slog.Logger
	// Now returns the time of decisions. It is for tests. Default: decisions use the servers' clocks.
	Now func() time.Time
	// Clock is the clock of this process, for retries and for the times in Health and Warnings. Default clock.System.
	Clock clock.Clock
	// Rand returns a random number below n, for delays between retries, for lease IDs, and to choose a part of a split
	// key. Default rand.Int64N of math/rand/v2.
	Rand func(n int64) int64
}

func (o *Options) validate() error {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.HangTimeout = cmp.Or(o.HangTimeout, DefaultHangTimeout)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Rand == nil {
		o.Rand = rand.Int64N
	}
	switch {
	case len(o.Prefix) > maxPrefix || strings.ContainsFunc(o.Prefix, isInvalidInPrefix):
		return fmt.Errorf("redisstore: Options.Prefix %s must consist of letters, digits and . - _ : /, at most %d",
			strconv.Quote(o.Prefix[:min(len(o.Prefix), maxPrefix)]), maxPrefix)
	case len(o.Secret) > 0 && len(o.Secret) < minSecret:
		return fmt.Errorf("redisstore: Options.Secret has %d bytes: it needs at least %d", len(o.Secret), minSecret)
	case len(o.SecondSecret) > 0 && (len(o.Secret) == 0 || len(o.SecondSecret) < minSecret):
		return fmt.Errorf("redisstore: Options.SecondSecret has %d bytes and Secret has %d: each needs at least %d",
			len(o.SecondSecret), len(o.Secret), minSecret)
	case len(o.SecondSecret) > 0 && string(o.SecondSecret) == string(o.Secret):
		return errors.New("redisstore: Options.SecondSecret must differ from Options.Secret")
	case o.DialTimeout < minTimeout:
		return fmt.Errorf("redisstore: Options.DialTimeout %v must be at least %v, or 0 for %v",
			o.DialTimeout, minTimeout, DefaultDialTimeout)
	case o.HangTimeout < minTimeout:
		return fmt.Errorf("redisstore: Options.HangTimeout %v must be at least %v, or 0 for %v",
			o.HangTimeout, minTimeout, DefaultHangTimeout)
	}
	return nil
}

// isInvalidInPrefix reports whether a prefix must not contain a rune. Braces, for example, would put all keys into one
// slot of a cluster.
func isInvalidInPrefix(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".-_:/", r)
}

// endpoint parses a URL and adds the options that the URL does not set.
func (o *Options) endpoint(url string) (*redisurl.Endpoint, error) {
	e, err := redisurl.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	e.DialTimeout = cmp.Or(e.DialTimeout, o.DialTimeout)
	e.HangTimeout = cmp.Or(e.HangTimeout, o.HangTimeout)
	if o.TLSConfig == nil {
		return e, nil
	}
	if e.TLS == nil {
		return nil, errors.New(
			"redisstore: Options.TLSConfig is set, but the URL does not select TLS: use rediss:// or tls=true")
	}
	config := o.TLSConfig.Clone()
	config.ServerName = cmp.Or(e.TLS.ServerName, config.ServerName)
	config.RootCAs = cmp.Or(e.TLS.RootCAs, config.RootCAs)
	if e.TLS.Certificates != nil {
		config.Certificates = e.TLS.Certificates
	}
	config.InsecureSkipVerify = config.InsecureSkipVerify || e.TLS.InsecureSkipVerify
	config.MinVersion = cmp.Or(config.MinVersion, e.TLS.MinVersion)
	e.TLS = config
	return e, nil
}
