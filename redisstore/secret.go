package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// The secret of a fleet that was given none is in Redis, made by whoever comes first. A server that has lost its data has
// lost it too, so it is looked after: whoever has it puts it back, and if another one is there by then all take that.

// defaultSecretEvery is how often the secret is looked after.
const defaultSecretEvery = 5 * time.Second

// secretKey is where the secret is.
func (s *Store) secretKey() string { return s.prefix + ":secret" }

// learnSecret returns the maker of keys under the secret that is in Redis.
func (s *Store) learnSecret(ctx context.Context) (*keyMaker, error) {
	select {
	case s.learning <- struct{}{}:
		defer func() { <-s.learning }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys := s.keys.Load(); keys != nil {
		return keys, nil
	}
	fresh := make([]byte, 32)
	rand.Read(fresh)
	secret, err := s.settleSecret(ctx, fresh)
	if err != nil {
		return nil, err
	}
	keys := newKeyMaker(s.prefix, secret)
	s.keys.Store(keys)
	every := s.secretEvery
	s.start(func() { s.keepSecret(secret, every) })
	return keys, nil
}

// settleSecret puts a secret into Redis if there is none, and returns the one that is there.
func (s *Store) settleSecret(ctx context.Context, ours []byte) ([]byte, error) {
	at := s.secretKey()
	text := base64.RawStdEncoding.EncodeToString(ours)
	put := s.conn.do(ctx, s.conn.b().Set().Key(at).Value(text).Nx().Build())
	if err := put.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(at)))
	}
	// Not as a reading command: a replica may not have it yet.
	text, err := s.conn.do(ctx, s.conn.b().Arbitrary("GET").Keys(at).Build()).ToString()
	if err != nil {
		return nil, s.conn.explain(err, s.conn.shardOf(s.conn.slotOf(at)))
	}
	secret, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(secret) < minSecret {
		return nil, &ServerError{
			Server: s.conn.shardOf(s.conn.slotOf(at)), What: fmt.Sprintf("has something else than a secret under %q", at),
			Cure: "find who writes there and delete it, choose a prefix that nobody else uses, or give Options.Secret",
		}
	}
	return secret, nil
}

// keepSecret looks after the secret until the store is closed.
func (s *Store) keepSecret(secret []byte, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), defaultSecretEvery)
		found, err := s.settleSecret(ctx, secret)
		cancel()
		if err != nil || string(found) == string(secret) {
			continue // what is wrong with the server, decisions say
		}
		secret = found
		s.keys.Store(newKeyMaker(s.prefix, secret))
		s.conn.log.Warn("redis has lost the secret that keys are made with, and another was made: all clients start anew; give a Secret to prevent that",
			"key", s.secretKey())
	}
}
