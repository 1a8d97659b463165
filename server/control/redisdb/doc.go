// Package redisdb stores the rules of a rules service in Redis or Valkey, for fleets without another database.
//
//	db, err := redisdb.Open(ctx, "redis://:secret@redis.example.com:6379", redisdb.Options{Logger: logger})
//
// A change is one script on one server: all keys have the same {tag}, so in a cluster they share a slot. Instances
// notify each other of changes with pub/sub, and also poll every few seconds.
//
// A change is as durable as any write to Redis. With appendonly yes and appendfsync always, a change is on disk when it
// is acknowledged. If Redis stops, the changes of the last seconds are lost with appendfsync everysec, and all changes
// since the last save are lost without an append-only file. Open logs a warning in both cases. A failover always loses
// changes that the replica did not have. If that is not acceptable, use PostgreSQL. Do not store rules on a server that
// evicts keys (maxmemory-policy allkeys-…).
package redisdb
