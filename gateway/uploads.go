package gateway

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/gateway/upstream"
	"github.com/headgate/headgate/internal/conns"
)

// uploads counts the uploads of each client that are under way. Each holds a connection of an upstream for as long as the
// client takes to send it, so that a client could take all of them with a few bytes a second.
type uploads struct {
	most int // of one client; below zero any number

	mu    sync.Mutex
	under map[netip.Addr]int // by address
}

// begin counts an upload, and reports whether the client may have one more. end follows then.
func (u *uploads) begin(client netip.Addr) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.under[client] >= u.most {
		return false
	}
	if u.under == nil {
		u.under = make(map[netip.Addr]int)
	}
	u.under[client]++
	return true
}

func (u *uploads) end(client netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.under[client]--; u.under[client] == 0 {
		delete(u.under, client)
	}
}

// uploadsPerClient returns how many uploads of one client a route may have under way.
func (rt *route) uploadsPerClient() int {
	total := 0
	for _, s := range rt.servers {
		if s.tunnel != nil { // one of HTTP/1.1
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

var errTooManyUploads = errors.New("too many uploads of the client are under way")

// beginUpload counts a request whose body is sent on while it is received, until the body has been read. Bodies that are
// collected first hold no connection meanwhile, and upstreams of HTTP/2 take many on one. It reports whether the client may
// have one more upload; if not, it has answered.
func (ex *exchange) beginUpload(w http.ResponseWriter, r *http.Request) bool {
	rt := ex.route
	if rt.uploads.most < 0 || !ex.client.IsValid() || r.ContentLength >= 0 && r.ContentLength <= upstream.DefaultBufferBody {
		return true
	}
	client := conns.Network(ex.client)
	if rt.uploads.begin(client) {
		ex.body.read = func() { rt.uploads.end(client) }
		return true
	}
	ex.g.figures.uploads.Add(1)
	ex.fault, ex.unsent = errTooManyUploads, true
	setRetryAfter(w.Header(), time.Second)
	ex.answer(w, http.StatusTooManyRequests, "Too many uploads of this client are under way.")
	return false
}
