package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// Open connects to Redis and returns a Store that counts there. The URL is one of
//
//	redis://[user:password@]host[:port][/database]
//	redis-sentinel://[user:password@]host[:port],host[:port],…/name[/database]
//	redis-cluster://[user:password@]host[:port],host[:port],…
//	unix:///path/of/socket
//
// with rediss instead of redis for TLS. The query may have db, protocol (2 or 3), dial_timeout and hang_timeout (as in
// Options), tls (true, like rediss), tls_server_name, tls_ca_file, tls_cert_file and tls_key_file (PEM), tls_insecure
// (true: do not verify certificates), sentinel_user and sentinel_password. Special characters in a user, password or
// value are percent-encoded (%2F), and so is a + in the query (%2B).
//
// Open checks server settings on which limits depend; [Store.Warnings] returns the problems. It returns an error for
// permanent problems, such as a wrong password, a replica instead of a primary, or a server without Lua. It also
// returns an error if the servers are unreachable, unless Options.StartUnreachable is set. Open loads the scripts into
// Redis, so that the first decisions are as fast as later ones.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	e, err := o.endpoint(url)
	if err != nil {
		return nil, err
	}
	client, err := topology.New(e, topology.Options{
		ReadReplicas: o.ReadReplicas, Logger: o.Logger, Clock: o.Clock, Rand: o.Rand,
	})
	if err != nil {
		return nil, err
	}
	s := newStore(client, o)
	err = s.connect(ctx)
	switch {
	case err == nil:
		s.preload(ctx)
	case o.StartUnreachable && !topology.IsPermanent(err):
		s.log.Warn("redis unreachable, starting without it", "err", err)
		s.background.Start(s.connectLater)
	default:
		_ = s.Close()
		return nil, suggestStartUnreachable(err)
	}
	return s, nil
}

// suggestStartUnreachable mentions Options.StartUnreachable in the Fix of an error, unless the error is permanent.
func suggestStartUnreachable(err error) error {
	var e *ServerError
	if topology.IsPermanent(err) || !errors.As(err, &e) {
		return err
	}
	clone := *e
	if clone.Fix != "" {
		clone.Fix += "; or "
	}
	clone.Fix += "set Options.StartUnreachable to start without Redis"
	return &clone
}

// connect connects to the servers, inspects them, and creates the scripts for their version.
func (s *Store) connect(ctx context.Context) error {
	if err := s.client.Connect(ctx); err != nil {
		return err
	}
	major, err := s.inspect(ctx)
	if err != nil {
		return err
	}
	s.scripts.Store(newScripts(major))
	return nil
}

// firstRetryDelay is the delay before the first attempt of connectLater. It doubles with each attempt, up to
// maxRetryDelay.
const firstRetryDelay, maxRetryDelay = 100 * time.Millisecond, 2 * time.Second

// connectLater connects a store that was opened while the servers were unreachable. It retries until it succeeds or the
// store is closed.
func (s *Store) connectLater() {
	timeout := 2 * s.client.Endpoint().DialTimeout
	var lastLogged string
	for delay := firstRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		if clock.Sleep(s.background.Context(), s.clock, delay) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.background.Context(), timeout)
		err := s.connect(ctx)
		cancel()
		if err == nil {
			s.servers.permanentErr.Store(nil)
			ctx, cancel := context.WithTimeout(s.background.Context(), timeout)
			s.preload(ctx)
			cancel()
			s.log.Info("redis reachable")
			return
		}
		if !topology.IsPermanent(err) {
			s.servers.permanentErr.Store(nil) // the servers are unreachable now, so the old problem may have been fixed
			continue
		}
		s.servers.permanentErr.Store(&err)
		if text := err.Error(); text != lastLogged {
			lastLogged = text
			s.log.Error("redis cannot be used", "err", err)
		}
	}
}
