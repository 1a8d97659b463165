// Package gateway is the part "gateway" of the benchmark: the gateway beside nginx, HAProxy, Caddy and proxies written
// here, at full load, at half load, and beside a client that floods.
package gateway
