// Package redisdb keeps the rules of a rules service in Redis or Valkey, for fleets that have nothing else.
//
//	db, err := redisdb.Open(ctx, "redis://:secret@redis.example.com:6379", redisdb.Options{Logger: logger})
//
// A change is one script on one server: all its keys begin with the same {tag}, so in a cluster they share a slot. Instances
// tell each other of changes by pub/sub, and look every few seconds besides.
//
// Redis keeps what it is told to keep. With appendonly yes and appendfsync always a change is on disk when it is
// acknowledged. With appendfsync everysec the changes of the last seconds are lost if it stops, and without an append-only
// file all since the last save. Open warns of either. A failover loses what the replica had not heard of, whatever is
// written. Where that is not enough, use PostgreSQL. A server that evicts keys (maxmemory-policy allkeys-…) is no place for
// rules.
package redisdb
