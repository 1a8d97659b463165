package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// infoAges is how many ages of SharedHealth a report of a server is kept in Redis. A report that is too old is still
// used while another store asks for a new one.
const infoAges = 3

// SharedHealth is like Health, but all stores with the same prefix together ask each server for its figures at most once
// within an age, and share the report in Redis. Err, Ping and Counts are this store's.
func (s *Store) SharedHealth(ctx context.Context, age time.Duration) ([]ShardHealth, error) {
	return s.health(ctx, func(ctx context.Context, server *topology.Server) (string, error) {
		return s.sharedInfo(ctx, server, age)
	})
}

// info returns the report of a server.
func (s *Store) info(ctx context.Context, server *topology.Server) (string, error) {
	return server.Do(ctx, s.client.Builder().Info().Build()).ToString()
}

// sharedInfo returns the report of a server that a store with the same prefix has read, or reads and shares it.
func (s *Store) sharedInfo(ctx context.Context, server *topology.Server, age time.Duration) (string, error) {
	key := s.prefix + ":info:" + server.Addr()
	b := s.client.Builder
	shared, err := s.client.Do(ctx, b().Get().Key(key).Build()).ToString()
	text := ""
	if err == nil {
		var fresh bool
		if text, fresh = parseSharedInfo(shared, s.clock.Now(), age); fresh {
			return text, nil
		}
	}
	// The first store to set this key asks the server. The others go on with the old report, if there is one.
	claim := b().Set().Key(key + ":asked").Value("1").Nx().Px(age).Build()
	if claimed := s.client.Do(ctx, claim).Error() == nil; !claimed && text != "" {
		return text, nil
	}
	if text, err = s.info(ctx, server); err != nil {
		return "", err
	}
	value := strconv.FormatInt(s.clock.Now().UnixMilli(), 10) + "\n" + text
	// If it cannot be shared, the other stores ask themselves.
	_ = s.client.Do(ctx, b().Set().Key(key).Value(value).Px(infoAges*age).Build()).Error()
	return text, nil
}

// parseSharedInfo splits a shared report into the text, and whether it is younger than age.
func parseSharedInfo(shared string, now time.Time, age time.Duration) (text string, fresh bool) {
	first, text, _ := strings.Cut(shared, "\n")
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return "", false
	}
	return text, now.Sub(time.UnixMilli(ms)) < age
}
