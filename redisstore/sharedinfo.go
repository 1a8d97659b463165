package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/redisstore/internal/topology"
)

// infoTTLFactor is the TTL of a shared report in Redis, as a multiple of the age passed to SharedHealth. It is more
// than 1, because stores use an old report while another store asks for a new one.
const infoTTLFactor = 3

// SharedHealth is like Health, but all stores with the same prefix share the reports of the servers in Redis. Together
// they ask each server for a report at most once within age. Err, Ping and Counts are this store's own.
func (s *Store) SharedHealth(ctx context.Context, age time.Duration) ([]ShardHealth, error) {
	return s.health(ctx, func(ctx context.Context, server *topology.Server) (string, error) {
		return s.sharedInfo(ctx, server, age)
	})
}

// info asks a server for its report, the reply to INFO.
func (s *Store) info(ctx context.Context, server *topology.Server) (string, error) {
	return server.Do(ctx, s.client.Builder().Info().Build()).ToString()
}

// sharedInfo returns the report of a server that a store with the same prefix has shared. If there is none, or it is
// older than age, sharedInfo may ask the server and share the report.
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
	// The first store to set this key asks the server. The other stores use the old report, if there is one.
	claim := b().Set().Key(key + ":asked").Value("1").Nx().Px(age).Build()
	if claimed := s.client.Do(ctx, claim).Error() == nil; !claimed && text != "" {
		return text, nil
	}
	if text, err = s.info(ctx, server); err != nil {
		return "", err
	}
	value := strconv.FormatInt(s.clock.Now().UnixMilli(), 10) + "\n" + text
	// If the report cannot be shared, each of the other stores asks the server.
	_ = s.client.Do(ctx, b().Set().Key(key).Value(value).Px(infoTTLFactor*age).Build()).Error()
	return text, nil
}

// parseSharedInfo returns the text of a shared report, and whether it is younger than age. The first line of a shared
// report is its time in Unix milliseconds.
func parseSharedInfo(shared string, now time.Time, age time.Duration) (text string, fresh bool) {
	first, text, _ := strings.Cut(shared, "\n")
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return "", false
	}
	return text, now.Sub(time.UnixMilli(ms)) < age
}
