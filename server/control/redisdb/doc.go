// Package redisdb stores the rules of a rules service in Redis or Valkey, for users without another database.
//
//	db, err := redisdb.Open(ctx, "redis://:secret@redis.example.com:6379", redisdb.Options{Logger: logger})
//
// A script commits each change atomically. All keys have the same hash tag, so in a Redis Cluster they are on one
// server. Instances of the rules service notify each other of changes with pub/sub, and also poll every few seconds.
//
// The durability of a change depends on the server's configuration:
//
//   - With appendonly yes and appendfsync always, a change is on disk when Commit returns.
//   - With appendfsync everysec, a crash of Redis loses the changes of the last seconds. Open logs a warning.
//   - Without an append-only file, a crash loses all changes since the last save. Open logs a warning.
//   - A failover always loses the changes that the replica has not received.
//
// If such losses are not acceptable, use PostgreSQL. Do not store rules on a server that evicts keys (maxmemory-policy
// allkeys-…).
package redisdb
