package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// Open connects to Redis and returns a Store that counts there. The URL is one of
//
//	redis://[user:password@]host[:port][/database]
//	redis-sentinel://[user:password@]host[:port],host[:port],…/name[/database]
//	redis-cluster://[user:password@]host[:port],host[:port],…
//	unix:///path/of/socket
//
// with rediss for redis to use TLS. After a ? may follow db, protocol (2 or 3), dial_timeout and hang_timeout (as
// Options), tls (true, as rediss does), tls_server_name, tls_ca_file, tls_cert_file and tls_key_file (PEM), tls_insecure
// (true: do not check certificates), sentinel_user and sentinel_password. What is special in a user, password or value is
// written as %2F and the like, and a + after the ? as %2B.
//
// Open checks what limits rely on: see [Store.Warnings]. It fails if there is something that waiting does not cure, such
// as a wrong password, a replica in the place of the primary, or a server without Lua. If the servers cannot be reached it
// fails unless Options.StartAway is set. When it returns, the servers that are there know the scripts, so that the first
// decisions take no longer than others. Close ends what Open starts.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	e, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if err := withOptions(e, &o); err != nil {
		return nil, err
	}
	c, err := newConnection(e, &o)
	if err != nil {
		return nil, err
	}
	major, err := c.arrive(ctx)
	if err != nil && (lasting(err) || !o.StartAway) {
		c.close()
		return nil, mayStartAway(err)
	}
	c.major = major
	s := newStore(c, o)
	if err == nil {
		s.warm(ctx)
	} else {
		c.log.Warn("redis is away; the store starts without it", "err", err)
		c.running.Go(s.arriveLater)
	}
	return s, nil
}

// mayStartAway adds to the cure of a server that is away that one can start without it.
func mayStartAway(err error) error {
	var e *ServerError
	if lasting(err) || !errors.As(err, &e) {
		return err
	}
	more := *e
	if more.Cure != "" {
		more.Cure += "; or "
	}
	more.Cure += "set Options.StartAway to start without it"
	return &more
}

// arrive connects and probes, once, and returns the servers' major version.
func (c *connection) arrive(ctx context.Context) (int, error) {
	if err := c.settle(ctx); err != nil {
		return 0, err
	}
	return c.probe(ctx)
}

// settle waits until there is a server to ask for every kind of key, or it is known that there is not.
func (c *connection) settle(ctx context.Context) error {
	if err := settled(ctx, c.seeds); err != nil {
		return err
	}
	if c.endpoint.Kind == redisurl.Standalone {
		return nil
	}
	if err := c.readMap(ctx, c.endpoint.DialTimeout); err != nil {
		return err
	}
	var primaries []*node
	for _, s := range c.topology.Load().shards {
		primaries = append(primaries, s.primary)
	}
	return settled(ctx, primaries)
}

// settled waits until one of several servers is up, or all have failed. An error that lasts counts before one that may
// pass.
func settled(ctx context.Context, nodes []*node) error {
	var failed error
	up := false
	for _, n := range nodes {
		err := n.settled(ctx)
		up = up || err == nil
		if lasting(err) || failed == nil {
			failed = err
		}
	}
	if up && !lasting(failed) {
		return nil
	}
	return failed
}

const firstArrival, lastArrival = 100 * time.Millisecond, 2 * time.Second

// arriveLater does what Open does, for a store that was started while the servers were away, until it is done.
func (s *Store) arriveLater() {
	c := s.conn
	delay := firstArrival
	var last string
	for {
		select {
		case <-c.life.Done():
			return
		case <-time.After(delay):
		}
		ctx, cancel := context.WithTimeout(c.life, 2*c.endpoint.DialTimeout)
		major, err := c.arrive(ctx)
		cancel()
		if err == nil {
			s.scripts.Store(newScripts(major))
			c.unfit.Store(nil)
			loading, cancel := context.WithTimeout(c.life, 2*c.endpoint.DialTimeout)
			s.warm(loading)
			cancel()
			c.log.Info("redis is there")
			return
		}
		if !lasting(err) {
			c.unfit.Store(nil)
		} else if c.unfit.Store(&err); err.Error() != last {
			last = err.Error()
			c.log.Error("redis cannot be used", "err", err)
		}
		delay = min(2*delay, lastArrival)
	}
}
