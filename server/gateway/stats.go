package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/turns"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// An Observation describes a request that has ended.
type Observation struct {
	// Route is the name of the route; it is empty if no route matches. Upstream is the URL of the last upstream that was
	// tried; it is empty if none was tried, for example because the limiter rejected the request.
	Route, Upstream string
	// Status is the status of the response. It is 499 if the client disconnected before the response, and 0 if the gateway
	// closed the connection without a response.
	Status int
	// Sent is the number of bytes of the body that were sent to the client.
	Sent int64
	// Duration is the duration of the request.
	Duration time.Duration
	// UpstreamDuration is the total duration of all attempts to forward the request, including the time to copy the
	// response to the client. It is 0 if no upstream was tried.
	UpstreamDuration time.Duration
	// Retries is the number of upstreams that were tried after the first.
	Retries int
	// Upgraded reports whether the connection was upgraded, Aborted whether the response was cut off.
	Upgraded, Aborted bool
	// Err says why the request was not served. It is nil if the request was served, or rejected by the limiter.
	Err error
}

// Stats are figures of a gateway. Counts are totals since New.
type Stats struct {
	// Conns is the number of open client connections.
	Conns int64
	// Accepted counts the connections that were accepted. Refused counts the connections that were closed immediately
	// because there were too many. Reclaimed counts the idle connections that were closed to make room for new ones.
	Accepted, Refused, Reclaimed int64
	// Turns describe the turns of connections while the cores are busy; see package turns.
	Turns TurnStats
	// UploadsRefused counts requests that were refused because their client had too many uploads in flight.
	UploadsRefused int64
	// InFlight is the number of requests that are being served. Requests counts all requests.
	InFlight, Requests int64
	// Responses counts responses by class: Responses[2] counts those with a status from 200 to 299. Responses[0] counts
	// requests without a response, including those whose client has disconnected.
	Responses [6]int64
	// Retries counts attempts after the first attempt of a request.
	Retries int64
	// Aborted counts responses that were cut off.
	Aborted int64
	// Upgrades is the number of open upgraded connections. Upgraded counts all upgraded connections.
	Upgrades, Upgraded int64
	// UpgradesIdle, UpgradesAged and UpgradesCut count the upgraded connections that the gateway closed: because of
	// StreamTimeout, because of MaxUpgradeAge, and because of Shutdown.
	UpgradesIdle, UpgradesAged, UpgradesCut int64
	// LogWritten and LogDropped count lines of the access log.
	LogWritten, LogDropped int64
	// CertificatesLoaded counts changed certificate files that were loaded, CertificatesFailed those that were invalid.
	CertificatesLoaded, CertificatesFailed int64
	// Certificates are the certificates in use.
	Certificates []CertificateStats
	// Upstreams are the upstreams of all routes, in the order of the Config.
	Upstreams []UpstreamStats
}

// TurnStats describe the turns of connections.
type TurnStats = turns.Stats

// CertificateStats describe one certificate.
type CertificateStats struct {
	// Listener is the configured address of the listener.
	Listener string
	// CertFile is the file of the certificate.
	CertFile string
	// NotAfter is when the certificate expires.
	NotAfter time.Time
}

// UpstreamStats describe one upstream of one route.
type UpstreamStats struct {
	// Route is the name of the route, URL the URL of the upstream.
	Route, URL string
	// Up reports whether the upstream gets requests: it is neither down nor ejected.
	Up bool
	// Down reports whether health checks of the upstream fail.
	Down bool
	// Ejected reports whether the upstream gets no requests for a while because requests to it have failed.
	Ejected bool
	// Returning reports whether the upstream is up again but gets less than its full share of requests; see
	// Ejection.SlowReturn.
	Returning bool
	// InFlight is the number of requests in flight at the upstream. Requests counts all requests to it, and Failed the
	// requests that failed.
	InFlight, Requests, Failed int64
	// Faults counts failed requests by reason, including failures that the client caused. A request that was sent twice
	// to this upstream counts once.
	Faults map[upstream.Fault]int64
	// Ejections counts how often the upstream was ejected.
	Ejections int64
	// Checks counts health checks of the upstream, ChecksFailed those that failed.
	Checks, ChecksFailed int64
	// LastErr is the last error of a request or a check, or nil if there was none.
	LastErr error
	// Pool describes the connections to the upstream. It is zero for HTTP/2.
	Pool upstream.Stats
}

// counters count requests and responses. Counters that every request changes are striped.
type counters struct {
	began, ended   stripedCounter
	responses      [6]stripedCounter // by class of the status
	retries        stripedCounter
	aborted        atomic.Int64
	uploadsRefused atomic.Int64
}

// Stats returns the current figures.
func (g *Gateway) Stats() Stats {
	c := &g.counters
	ended := c.ended.sum() // before began, so that InFlight is never negative
	conns, tunnels := g.conns.Counts(), g.tunnels.Stats()
	s := Stats{
		Conns: g.conns.Open(), Accepted: conns.Accepted, Refused: conns.Refused, Reclaimed: conns.Reclaimed,
		Turns: g.turns.Stats(), UploadsRefused: c.uploadsRefused.Load(),
		Requests: c.began.sum(), Retries: c.retries.sum(), Aborted: c.aborted.Load(),
		Upgrades: tunnels.Open, Upgraded: tunnels.Total,
		UpgradesIdle: tunnels.Idle, UpgradesAged: tunnels.Aged, UpgradesCut: tunnels.Shut,
	}
	s.InFlight = s.Requests - ended
	for i := range s.Responses {
		s.Responses[i] = c.responses[i].sum()
	}
	if g.log != nil {
		s.LogWritten, s.LogDropped = g.log.Counts()
	}
	for _, ls := range g.listeners {
		if ls.certificates != nil {
			s.CertificatesLoaded += ls.certificates.Loaded()
			s.CertificatesFailed += ls.certificates.Failed()
			s.Certificates = append(s.Certificates, certificateStats(ls.certificates, ls.config.Address)...)
		}
	}
	for _, rt := range g.routes.all {
		for _, u := range rt.upstreams {
			s.Upstreams = append(s.Upstreams, u.stats(rt, g.clock.Now()))
		}
	}
	return s
}

func (s *upstreamServer) stats(rt *route, now time.Duration) UpstreamStats {
	b := rt.balance.Stats(s.index, now)
	u := UpstreamStats{
		Route: rt.config.Name, URL: s.url,
		Up: !b.Down && !b.Ejected, Down: b.Down, Ejected: b.Ejected, Returning: b.Returning,
		InFlight: s.inFlight.Load(), Requests: s.requests.Load(), Failed: b.Failed, Ejections: b.Ejections,
		Checks: b.Checks, ChecksFailed: b.ChecksFailed, LastErr: b.LastErr,
	}
	for fault := range s.faults {
		if n := s.faults[fault].Load(); n > 0 {
			if u.Faults == nil {
				u.Faults = make(map[upstream.Fault]int64)
			}
			u.Faults[upstream.Fault(fault)] = n
		}
	}
	if pool, ok := s.forwarder.(*upstream.Pool); ok {
		u.Pool = pool.Stats()
	}
	return u
}

// record counts a request that has ended, and reports it to Observe and the access log.
func (g *Gateway) record(ex *exchange, r *http.Request) {
	c, response := &g.counters, &ex.response
	if response.status >= http.StatusInternalServerError && r.Context().Err() != nil {
		response.status = upstream.StatusClientGone // the request failed because the client has disconnected
	}
	switch class := response.status / 100; {
	case response.status == upstream.StatusClientGone:
		c.responses[0].add(ex.stripe)
	case class < len(c.responses):
		c.responses[class].add(ex.stripe)
	}
	if !response.complete {
		c.aborted.Add(1)
	}
	failed := response.status >= http.StatusInternalServerError ||
		!response.complete && response.status != upstream.StatusClientGone
	logged := g.log != nil && g.log.Wants(failed)
	if logged || g.config.Observe != nil {
		g.observe(ex, r, logged)
	}
	c.ended.add(ex.stripe) // last, so that Stats never has an ended request without its other figures
}

func (g *Gateway) observe(ex *exchange, r *http.Request, logged bool) {
	o := &ex.observation
	*o = Observation{
		Status: ex.response.status, Sent: ex.response.sent, Duration: g.clock.Now() - ex.began,
		UpstreamDuration: ex.forward.upstreamTime, Retries: ex.forward.retries,
		Aborted: !ex.response.complete, Err: ex.forward.fault, Upgraded: ex.response.status == http.StatusSwitchingProtocols,
	}
	if ex.route != nil {
		o.Route = ex.route.config.Name
	}
	if ex.forward.upstream != nil {
		o.Upstream = ex.forward.upstream.url
	}
	if g.config.Observe != nil {
		g.config.Observe(o)
	}
	if logged {
		g.log.Add(ex.logLine(r, o))
	}
}

// A stripedCounter is a counter that many cores can increase at the same time: each stripe has its own cache line.
type stripedCounter [16]struct {
	n atomic.Int64
	_ [56]byte // to fill a cache line
}

// add increases the counter by one, on any stripe.
func (t *stripedCounter) add(stripe uint32) { t[stripe%uint32(len(t))].n.Add(1) }

func (t *stripedCounter) sum() int64 {
	var sum int64
	for i := range t {
		sum += t[i].n.Load()
	}
	return sum
}
