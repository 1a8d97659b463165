package gateway

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/bench/stalls"
)

// gatewayMethod describes how proxies are compared.
func gatewayMethod(b *strings.Builder, r *harness.Results) {
	s := r.Sizes
	fmt.Fprintf(b, `- One core is the measured server's alone; wrk, with one thread, and the upstream share another. All of them have the highest
  priority that is not of real time, so that the system's housekeeping waits and not they. All servers stay alive and
  take turns, %[1]d rounds after one that only warms, in a new random order every round; those that wait sleep. Tables show
  medians over the rounds and the quartiles. "headgate against it" is taken round by round, and the median of that is what
  bars are held against.
- wrk has %[2]d connections that stay open and sends on each the next request when the last is answered, for %[3]s at a
  time. Requests come from %[4]d clients in turn, each with an X-API-Key of its own, so that on a connection it is another each time, as
  behind a proxy; where it says "again and again" all are the same, as with wrk by itself and nearly so with clients who have
  connections of their own. All servers get the very same bytes. Every
  answer is looked at: one with another status than it should have, or a connection that breaks, ends the run.
- The upstream answers %[5]d bytes of JSON, at once, from one loop over epoll, so that it and wrk leave room on their core: the
  columns "it ran" and "the load's core busy" report whether it was the measured server that was at its end. "No proxy" is wrk and
  the upstream alone. p99 is the time from when wrk has sent a request to its answer, at full load.
  Bars also compare the CPU time for each request if a peer that headgate is compared with was not saturated.
- headgate is the program that users run, as it comes: headgate serve with a rules file, metrics on. It has %[6]d rules, of which
  three apply to every request (by address, by API key, and a sliding window by host, path, method and API key) and the others
  are for other paths, hosts and headers. It counts in memory and tells clients their limits in header fields. "No rules"
  is the same program with an empty rules file. "Its gateway package alone" is a process with nothing around the proxy: no
  identity, no rules, no metrics, no header fields.
- httputil.ReverseProxy keeps %[7]d idle connections, uses buffers again, compresses and logs nothing, and sets X-Forwarded-*. nginx
  has one worker, keeps connections on both sides without a bound on their requests, logs nothing, and has limit_req by address.
  HAProxy has one thread, reuses connections always, and denies by a stick table of request rates by address. Both set
  X-Forwarded-For, and nobody meets their limits. Caddy is a plain reverse_proxy with as many idle connections, since its package
  has no limiter. headgate has %[9]d MiB of ballast in its heap, so that its garbage is not collected many times a second; the
  Go servers written here have the same, and Caddy has GOGC=%[10]s.
- Over HTTP/2 and TLS, h2load has 16 connections with four requests in flight on each, all the same, and servers have a
  certificate with a key on P-256. headgate has the rules of which one applies.
- Responses and requests of 10 kB have a body of %[20]d bytes of JSON. For requests on new connections, the client asks the server to
  close the connection after each. Over TLS, wrk has the same servers as h2load. The access log of headgate goes to a file, as
  JSON, as does that of nginx, in its own format.
- With different numbers of connections, all servers run with each number in every round. For one of them, headgate counts in a
  Redis on the core of the load, and limits each client. Its limit on connections from one address is off.
- At the low rate, the load is that of answers at half load, in windows of %[19]s. The CPU time is that of the measured server
  in its own windows.
- When everybody is refused, headgate has the same rules, but an address may send one request an hour; nginx lets one a minute pass
  and HAProxy none. The bare handler writes a status and nothing else; headgate says in JSON and in header fields why, and when
  to come back.
- For answers at half load, requests are due at even distances, fixed beforehand, on %[2]d connections, and are timed from
  when they were due, also those that had to wait for a connection. Nobody can hide a delay by being asked less. "Sent late"
  is what the load itself adds to that. Load and upstream are one thread that never sleeps, so that neither waits for the
  other, and servers have real-time priority, so that none waits for what else runs here. All are asked by turns, in a new random order every time, in windows of %[8]s behind
  %[11]s that only warm, %[12]d of each. Figures are medians over the windows; what one adds to another is taken from window
  to window, and is the median of that.
- For answers beside a flood, headgate has the same rules, but each client may send %[15]d requests a second. %[16]d clients send half of
  that each, evenly, on a connection each, and nobody refuses any of them, or the run would end. In every other window one client more
  sends %[17]d times its limit on %[18]d connections. Windows of %[19]s with and without it take turns, and are compared pair by pair.
- A machine that others share stops a core now and then, for longer than a request takes. On each of the two cores a thread of
  real-time priority is to wake every %[13]s. It comes before all that servers and load do there, so that when it wakes more
  than %[14]s late, the core has stalled, whichever server is measured. A request is set apart if a stall fell between when it was due
  and when it was answered, or was over by then for less than twice its length, as what has queued up must be answered first. A
  window in which that is more than half of all is set apart as a whole. The rule is the same for all, and so is what it
  knows of them: nothing. The table of all requests, with those set apart, is beside the other.
`,
		s.GatewayRounds, s.Connections, s.LoadLength, site.LoadClients, len(
			site.UpstreamBody), RuleCount, idleConnections, s.PaceLength,
		harness.BallastBytes>>20, caddyGOGC, s.PaceWarming, s.GatewayRounds*s.PaceWindows, stalls.Tick, stalls.Least,
		neighbourLimit, neighbours, floodTimes, site.FloodConnections, s.NoiseLength,
		len(site.LargeBody))
}
