// Package gateway is the part "gateway" of the benchmark. It compares the gateway with nginx, HAProxy, Caddy and
// proxies in this package, at full load, at half load, at a low rate, and while one client floods.
package gateway
