//go:build !race

package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
)

// manyClients is the number of clients, each with its own key, address and path: more than a million names.
const manyClients = 340_000

// A client with a new name in every request uses no more memory than the store's limit, frees no other client from a
// limit that it has reached, and leaks nothing.
func TestMillionRandomClientsStayWithinMemoryLimit(t *testing.T) {
	store := newStore(t, memstore.Options{MaxBytes: 8 << 20})
	id := identify(t, identity.Config{TrustedProxies: nets(t, "10.0.0.0/8")})
	c := before("http://127.0.0.1:1")
	c.Routes[0].Host = "routed.example" // what comes here ends behind the limiter, so that it can be a million
	c.Identity = id
	c.Limit = limitIn(t, store, id, `
rules:
  - { id: keys, key: api_key, limits: 5/h, penalty: { after: 3 denials in 1h, limits: 1/h, for: 1h } }
  - { id: addresses, key: ip, limits: 5/h }
  - { id: paths, key: path, limits: 5/h }
`)
	g := create(t, c)
	ask := func(key, address, path string) int {
		w := &silent{header: http.Header{}}
		g.ServeHTTP(w, &http.Request{
			Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "other.example", RemoteAddr: "10.0.0.1:4711",
			URL: &url.URL{Path: path}, RequestURI: path, Body: http.NoBody,
			Header: http.Header{"X-Api-Key": {key}, "X-Forwarded-For": {address}},
		})
		return w.status
	}
	for range 20 {
		ask("noisy", "203.0.113.9", "/noisy")
	}
	if status := ask("noisy", "203.0.113.9", "/noisy"); status != http.StatusTooManyRequests {
		t.Fatalf("the noisy client: %d, want 429", status)
	}
	before := heap()

	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	passed := make([]int, workers)
	for worker := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 7))
			for range manyClients / workers {
				address := fmt.Sprintf("2001:db8:%x:%x::1", rng.Uint32()&0xffff, rng.Uint32()&0xffff)
				n := strconv.FormatUint(rng.Uint64(), 36)
				if ask("key-"+n, address, "/made/up/"+n) == http.StatusNotFound {
					passed[worker]++
				}
			}
		})
	}
	all.Wait()

	s := store.Stats()
	if s.Bytes > s.MaxBytes || s.MaxBytes != 8<<20 {
		t.Errorf("counters take %d bytes, want at most %d", s.Bytes, s.MaxBytes)
	}
	if s.Evictions+s.Refusals < manyClients {
		t.Errorf("%d evictions and %d refusals: the store was never full, so this proves nothing", s.Evictions, s.Refusals)
	}
	// A map of a million names would take 60 MB and more.
	if after := heap(); after > before+24<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	total := 0
	for _, n := range passed {
		total += n
	}
	if total < manyClients*99/100 { // a few share an address with another client
		t.Errorf("%d of %d passed: clients within their limits were denied", total, manyClients)
	}
	if status := ask("noisy", "203.0.113.9", "/noisy"); status != http.StatusTooManyRequests {
		t.Errorf("the client over its limit, after all others: %d, want 429", status)
	}
}

// heap returns the number of bytes in use after a garbage collection.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 { // pools give up what they hold in two rounds
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// silent is a writer that discards everything.
type silent struct {
	header http.Header
	status int
}

func (w *silent) Header() http.Header { return w.header }

func (w *silent) Write(b []byte) (int, error) { return len(b), nil }

func (w *silent) WriteHeader(status int) { w.status = status }
