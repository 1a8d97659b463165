package main

import (
	"fmt"
	"strings"
)

// gatewayMethod says how proxies are compared.
func gatewayMethod(b *strings.Builder, r *results) {
	s := r.Sizes
	fmt.Fprintf(b, `- One core is the measured server's alone; wrk, with one thread, and the upstream share another. All servers stay alive and
  take turns, %[1]d rounds after one that only warms, in a new random order every round; those that wait sleep. Tables show
  medians over the rounds and the quartiles. "headgate against it" is taken round by round, and the median of that is what
  bars are held against.
- wrk has %[2]d connections that stay open and sends on each the next request when the last is answered, for %[3]s at a
  time. Requests come from %[4]d clients in turn, each with an X-API-Key of its own; all servers get the very same bytes. Every
  answer is looked at: one with another status than it should have, or a connection that breaks, ends the run.
- The upstream answers %[5]d bytes of JSON, at once, from one loop over epoll, so that it and wrk leave room on their core: the
  last two columns tell whether it was the measured server that was at its end. "No proxy" is wrk and the upstream alone.
  Bars are held against the CPU time for each request too if somebody that headgate is compared with was not at his end.
- headgate is the program that users run, as it comes: headgate serve with a rules file, metrics on. It has %[6]d rules, of which
  three apply to every request (by address, by API key, and a sliding window by host, path, method and API key) and the others
  are for other paths, hosts and headers. It counts in memory and tells clients their limits in header fields. "Without limits"
  is its gateway package in a process of its own with nothing around the proxy: no identity, no rules, no header fields.
- httputil.ReverseProxy keeps %[7]d idle connections, uses buffers again, compresses and logs nothing, and sets X-Forwarded-*. nginx
  has one worker, keeps connections on both sides without a bound on their requests, logs nothing, and has limit_req by address.
  HAProxy has one thread, reuses connections always, and denies by a stick table of request rates by address. Both set
  X-Forwarded-For, and nobody meets their limits. Caddy is a plain reverse_proxy with as many idle connections, since its package
  has no limiter. headgate has %[9]d MiB of ballast in its heap, so that its garbage is not collected many times a second; the
  Go servers written here have the same, and Caddy has GOGC=%[10]s.
- When everybody is refused, headgate has the same rules, but an address may send one request an hour; nginx lets one a minute pass
  and HAProxy none. The bare handler writes a status and nothing else; headgate says in JSON and in header fields why, and when
  to come back.
- For answers at half load, requests are due at even distances, fixed beforehand, on %[2]d connections for %[8]s, and are timed from
  when they were due, also those that had to wait for a connection. Nobody can hide a delay by being asked less. "Sent late"
  is what the load itself adds to that.
`,
		s.GatewayRounds, s.Connections, s.LoadLength, loadClients, len(upstreamBody), ruleCount, idleConnections, s.PaceLength,
		ballastBytes>>20, caddyGOGC)
}
