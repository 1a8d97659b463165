package gateway

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/gateway/upstream"
)

// An Observation is a request that is over.
type Observation struct {
	// Route and Upstream are the names of the route and the URL of the upstream that was asked last; empty if there is none,
	// as with requests that the limiter rejects.
	Route, Upstream string
	// Status is what was answered, 499 if the client had gone before there was an answer, 0 if the connection was closed
	// without one.
	Status int
	// Sent is how many bytes of a body were sent to the client.
	Sent int64
	// Took is how long it took.
	Took time.Duration
	// Retries is on how many other upstreams it was tried.
	Retries int
	// Upgraded tells that the connection was upgraded, Aborted that the answer was cut off.
	Upgraded, Aborted bool
	// Err is why the request was not served; nil if it was, or if the limiter rejected it.
	Err error
}

// Stats are a gateway's figures: those that count, since it was made.
type Stats struct {
	// Conns is how many connections of clients there are, Accepted how many there were, and Refused how many were too many.
	// Reclaimed is how many were closed, while they served no request, to make room for others.
	Conns, Accepted, Refused, Reclaimed int64
	// UploadsRefused is how many requests were refused because their client had too many uploads under way.
	UploadsRefused int64
	// InFlight is how many requests are being served, and Requests how many there were.
	InFlight, Requests int64
	// Answers is how many there were by their class: Answers[2] those from 200 to 299. Answers[0] are the requests that had
	// none, also because the client had gone.
	Answers [6]int64
	// Retries is how many requests were tried on another upstream.
	Retries int64
	// Aborted is how many answers were cut off.
	Aborted int64
	// Upgrades is how many upgraded connections there are, and Upgraded how many there were. UpgradesIdle is how many were
	// closed because nothing passed, UpgradesAged because they had lasted for MaxUpgradeAge, UpgradesCut because the gateway
	// was shut down.
	Upgrades, Upgraded, UpgradesIdle, UpgradesAged, UpgradesCut int64
	// LogWritten and LogDropped are how many lines of the access log were written, and how many were too many.
	LogWritten, LogDropped int64
	// CertificatesLoaded and CertificatesFailed are how often new files of certificates were taken into use, and how often
	// files could not be.
	CertificatesLoaded, CertificatesFailed int64
	// Certificates are those in use.
	Certificates []CertificateStats
	// Upstreams are those of all routes, in the order of the Config.
	Upstreams []UpstreamStats
}

// CertificateStats are about one certificate.
type CertificateStats struct {
	// Listener is the address, as configured, of whom it is; CertFile its file.
	Listener, CertFile string
	// NotAfter is when it expires.
	NotAfter time.Time
}

// UpstreamStats are what is known of one upstream of one route.
type UpstreamStats struct {
	// Route is the route's name, URL the upstream's.
	Route, URL string
	// Up is whether it gets requests. Down is what its health checks say, Ejected that requests failed there, Returning
	// that it does not yet get its full share.
	Up, Down, Ejected, Returning bool
	// InFlight is how many requests it is serving, Requests how many it was sent, Failed how many failed there.
	InFlight, Requests, Failed int64
	// Faults is how many did by what went wrong; a request that was tried twice there counts once. What failed because of
	// the client is here too.
	Faults map[upstream.Fault]int64
	// Ejections is how often it was left out.
	Ejections int64
	// Checks and ChecksFailed are its health checks.
	Checks, ChecksFailed int64
	// LastErr is what went wrong there last, if anything ever did.
	LastErr error
	// Pool are the figures of its connections. Upstreams of HTTP/2 have none.
	Pool upstream.Stats
}

// figures are those that every request changes.
type figures struct {
	began, over tally
	answers     [6]tally
	retries     tally
	aborted     atomic.Int64
	uploads     atomic.Int64 // that were refused
}

// Stats returns the figures.
func (g *Gateway) Stats() Stats {
	f := &g.figures
	over := f.over.sum() // first, so that what is in flight is never below zero
	counts := g.conns.Counts()
	s := Stats{
		Conns: g.conns.Open(), Accepted: counts.Accepted, Refused: counts.Refused, Reclaimed: counts.Reclaimed,
		UploadsRefused: f.uploads.Load(),
		Requests:       f.began.sum(), Retries: f.retries.sum(), Aborted: f.aborted.Load(),
		Upgrades: g.tunnels.now.Load(), Upgraded: g.tunnels.total.Load(),
		UpgradesIdle: g.tunnels.idled.Load(), UpgradesAged: g.tunnels.aged.Load(), UpgradesCut: g.tunnels.cut.Load(),
	}
	s.InFlight = s.Requests - over
	for i := range s.Answers {
		s.Answers[i] = f.answers[i].sum()
	}
	if g.log != nil {
		s.LogWritten, s.LogDropped = g.log.written.Load(), g.log.dropped.Load()
	}
	for _, f := range g.fronts {
		if f.certificates != nil {
			s.CertificatesLoaded += f.certificates.Loaded()
			s.CertificatesFailed += f.certificates.Failed()
			s.Certificates = append(s.Certificates, f.certificates.stats(f.config.Address)...)
		}
	}
	for _, rt := range g.routes.all {
		for _, u := range rt.servers {
			s.Upstreams = append(s.Upstreams, u.stats(rt, g.now()))
		}
	}
	return s
}

func (s *upstreamServer) stats(rt *route, now time.Duration) UpstreamStats {
	state := s.current(rt, now)
	u := UpstreamStats{
		Route: rt.config.Name, URL: s.url,
		Up: state&(isDown|isEjected) == 0, Down: state&isDown != 0, Ejected: state&isEjected != 0, Returning: state&isReturning != 0,
		InFlight: s.inFlight.Load(), Requests: s.requests.Load(), Failed: s.failed.Load(), Ejections: s.ejections.Load(),
		Checks: s.checked.Load(), ChecksFailed: s.checksFailed.Load(),
	}
	for fault := range s.faults {
		if n := s.faults[fault].Load(); n > 0 {
			if u.Faults == nil {
				u.Faults = make(map[upstream.Fault]int64)
			}
			u.Faults[upstream.Fault(fault)] = n
		}
	}
	s.mu.Lock()
	u.LastErr = s.lastErr
	s.mu.Unlock()
	if pool, ok := s.leg.(*upstream.Pool); ok {
		u.Pool = pool.Stats()
	}
	return u
}

// over counts a request that is over, and tells of it.
func (g *Gateway) over(ex *exchange, r *http.Request) {
	f := &g.figures
	if ex.status >= http.StatusInternalServerError && r.Context().Err() != nil {
		ex.status = statusClientGone // there was nobody to answer, which is no fault of ours
	}
	switch class := ex.status / 100; {
	case ex.status == statusClientGone:
		f.answers[0].add(ex.stripe)
	case class < len(f.answers):
		f.answers[class].add(ex.stripe)
	}
	if !ex.complete {
		f.aborted.Add(1)
	}
	logged := g.log != nil && g.log.wants(ex)
	if logged || g.config.Observe != nil {
		g.tell(ex, r, logged)
	}
	f.over.add(ex.stripe) // last, so that who sees it sees all of the above
}

// tell tells of a request.
func (g *Gateway) tell(ex *exchange, r *http.Request, logged bool) {
	o := &ex.observation
	*o = Observation{
		Status: ex.status, Sent: ex.sent, Took: g.now() - ex.began, Retries: ex.retries, Aborted: !ex.complete, Err: ex.fault,
		Upgraded: ex.status == http.StatusSwitchingProtocols,
	}
	if ex.route != nil {
		o.Route = ex.route.config.Name
	}
	if ex.upstream != nil {
		o.Upstream = ex.upstream.url
	}
	if g.config.Observe != nil {
		g.config.Observe(o)
	}
	if logged {
		g.log.add(ex.line(r, o))
	}
}

// maxLoggedPath is how much of a path is logged that is not one.
const maxLoggedPath = 256

// line makes a line of the access log.
func (ex *exchange) line(r *http.Request, o *Observation) accessLine {
	line := accessLine{
		at: ex.g.epoch.Add(ex.began), took: o.Took, method: r.Method, host: ex.host, path: ex.path, protocol: r.Proto,
		route: o.Route, upstream: o.Upstream, status: o.Status, sent: o.Sent, retries: o.Retries, aborted: o.Aborted, fault: o.Err,
	}
	if ex.id != nil {
		line.id = ex.id[0]
	}
	if line.path == "" { // it is not a good one
		line.path = r.URL.EscapedPath()
		line.path = line.path[:min(len(line.path), maxLoggedPath)]
	}
	if ex.client.IsValid() {
		line.client = ex.client.String()
	}
	if ex.g.config.AccessLog.Query {
		line.query = r.URL.RawQuery
	}
	return line
}

// A tally is a counter that many cores count on at once.
type tally [16]struct {
	n atomic.Int64
	_ [56]byte // a cache line each
}

// add counts one, on any of the stripes.
func (t *tally) add(stripe uint32) { t[stripe%uint32(len(t))].n.Add(1) }

func (t *tally) sum() int64 {
	var sum int64
	for i := range t {
		sum += t[i].n.Load()
	}
	return sum
}
