package gateway

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/server/gateway/upstream"
	"github.com/headgate/headgate/server/internal/conns"
)

// uploads counts the concurrent uploads of each client. An upload holds a connection to an upstream until the client
// has sent all of it, so without a limit one client could occupy all connections with a few bytes a second.
type uploads struct {
	max int // the maximum for one client; negative for no limit

	mu     sync.Mutex
	counts map[netip.Addr]int
}

// begin counts an upload if the client may have one more, and reports whether it may. The caller must call end after an
// upload that was counted.
func (u *uploads) begin(client netip.Addr) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts[client] >= u.max {
		return false
	}
	if u.counts == nil {
		u.counts = make(map[netip.Addr]int)
	}
	u.counts[client]++
	return true
}

func (u *uploads) end(client netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts[client]--; u.counts[client] == 0 {
		delete(u.counts, client)
	}
}

// uploadsPerClient returns the route's maximum number of concurrent uploads of one client, or -1 for no limit.
func (rt *route) uploadsPerClient() int {
	total := 0
	for _, s := range rt.upstreams {
		if !s.target.HTTP2 {
			total += rt.config.UpstreamConns
		}
	}
	switch {
	case total == 0:
		return -1
	case rt.config.UploadsPerClient != 0:
		return rt.config.UploadsPerClient
	default:
		return max(1, total/4)
	}
}

var errTooManyUploads = errors.New("the client has too many uploads in flight")

// beginUpload counts a request as an upload until its body has been read. If the client has too many uploads,
// beginUpload sends the response and returns false. Small bodies are not counted: they are received completely before
// they need a connection to the upstream. Uploads to HTTP/2 upstreams are not counted either, because one connection
// serves many requests.
func (ex *exchange) beginUpload(w http.ResponseWriter, r *http.Request) bool {
	rt, addr := ex.route, ex.request.client
	isSmall := r.ContentLength >= 0 && r.ContentLength <= upstream.DefaultMaxBufferedBody
	if rt.uploads.max < 0 || !addr.IsValid() || isSmall {
		return true
	}
	client := conns.Network(addr)
	if rt.uploads.begin(client) {
		ex.body.onDone = func() { rt.uploads.end(client) }
		return true
	}
	ex.g.counters.uploadsRefused.Add(1)
	ex.forward.fault, ex.forward.unsent = errTooManyUploads, true
	setRetryAfter(w.Header(), time.Second)
	ex.respond(w, http.StatusTooManyRequests, "Too many uploads of this client are under way.")
	return false
}
