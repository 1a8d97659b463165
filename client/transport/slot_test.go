package transport

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// A response that takes longer than the TTL to be read holds its slot until then.
func TestTransportRenewsItsSlotWhileTheResponseIsRead(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(up.Close)
	clock := limittest.NewClock()
	counters, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = counters.Close() })
	store := &enginetest.Store{Limiter: counters}
	limit := headgate.MustParseLimit("1 concurrent ttl 30ms")
	transport, err := New(Options{Limiter: store, Limit: limit, Key: func(*http.Request) string { return "up" }})
	if err != nil {
		t.Fatal(err)
	}
	remaining := func() int64 {
		d, err := store.Peek(t.Context(), headgate.Check{Key: "up", Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		return d.Remaining
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, up.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		clock.Advance(20 * time.Millisecond)
		renewed := store.Renews.Load()
		await.True(t, "the slot renewed", func() bool { return store.Renews.Load() > renewed })
		if got := remaining(); got != 0 {
			t.Errorf("%d slots free while the response is not read, want none", got)
		}
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if got := remaining(); got != 1 {
		t.Errorf("%d slots free after the response was closed, want 1", got)
	}
}
