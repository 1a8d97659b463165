package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/clock"
)

// A store without Options.Secret uses a random secret that the first store writes to Redis. If a server loses its data,
// the secret is lost, too. So every store checks the secret regularly: it writes a lost secret again, or uses the new
// secret if another store has written one.

// defaultSecretInterval is how often the secret is checked.
const defaultSecretInterval = 5 * time.Second

// secretTimeout is the maximum time of a check of the secret.
const secretTimeout = 5 * time.Second

type secretLoader struct {
	interval time.Duration
	loading  chan struct{} // a mutex that is held while a caller loads the secret, and can be waited for with a context
}

func newSecretLoader() secretLoader {
	return secretLoader{interval: defaultSecretInterval, loading: make(chan struct{}, 1)}
}

// secretKey returns the Redis key of the secret.
func (s *Store) secretKey() string { return s.prefix + ":secret" }

// loadSecret loads the secret from Redis, or creates it, and returns the keyMaker that uses it.
func (s *Store) loadSecret(ctx context.Context) (*keyMaker, error) {
	select {
	case s.secret.loading <- struct{}{}:
		defer func() { <-s.secret.loading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys := s.keys.Load(); keys != nil {
		return keys, nil
	}
	fresh := make([]byte, 32)
	rand.Read(fresh)
	secret, err := s.putSecret(ctx, fresh)
	if err != nil {
		return nil, err
	}
	keys := newKeyMaker(s.prefix, secret)
	s.keys.Store(keys)
	interval := s.secret.interval
	s.background.Start(func() { s.watchSecret(secret, interval) })
	return keys, nil
}

// putSecret writes a secret to Redis unless Redis already has one, and returns the secret that Redis then has.
func (s *Store) putSecret(ctx context.Context, secret []byte) ([]byte, error) {
	key := s.secretKey()
	text := base64.RawStdEncoding.EncodeToString(secret)
	put := s.client.Do(ctx, s.client.Builder().Set().Key(key).Value(text).Nx().Build())
	if err := put.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.explain(err, key)
	}
	// The client library does not treat an Arbitrary command as read-only, so it goes to the primary. Replicas may lag.
	text, err := s.client.Do(ctx, s.client.Builder().Arbitrary("GET").Keys(key).Build()).ToString()
	if err != nil {
		return nil, s.explain(err, key)
	}
	stored, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(stored) < minSecret {
		return nil, &ServerError{
			Server: s.client.ShardOf(key), Problem: fmt.Sprintf("has a value other than a secret under %q", key),
			Fix: "find out what writes this key and delete the value, choose an unused prefix, or set Options.Secret",
		}
	}
	return stored, nil
}

// watchSecret checks the secret until the store is closed.
func (s *Store) watchSecret(secret []byte, interval time.Duration) {
	for clock.Sleep(s.background.Context(), s.clock, interval) == nil {
		ctx, cancel := context.WithTimeout(s.background.Context(), secretTimeout)
		stored, err := s.putSecret(ctx, secret)
		cancel()
		if err != nil || string(stored) == string(secret) {
			continue // on an error too: decisions report it
		}
		secret = stored
		s.keys.Store(newKeyMaker(s.prefix, secret))
		s.log.Warn("redis lost the key secret, all counters start at zero; set Options.Secret to prevent this",
			"key", s.secretKey())
	}
}
