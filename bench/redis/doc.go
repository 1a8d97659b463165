// Package redis is the part "redis" of the benchmark: limiters that count in Redis, at full and at half load.
package redis
