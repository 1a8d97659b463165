package downstream

import (
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// A kept value counts for a request only if the last one was equal, and its handler has called Kept too.
func TestWhatIsKeptIsOfTheSameRequestOnTheSameConnection(t *testing.T) {
	var blind atomic.Bool // once, the handler does not look
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if blind.Swap(false) {
			return
		}
		kept, repeats := w.(ResponseWriter).Kept()
		n, _ := (*kept).(int)
		*kept = n + 1
		fmt.Fprintf(w, "%d %v %s", n, repeats, r.Header.Get("X-Who"))
	})
	long := "X-Long: " + fmt.Sprintf("%08000d", 7)
	c, r := dial(t, s.addr)
	for i, tt := range []struct{ request, want string }{
		{get("/a", "X-Who: alice"), "0 false alice"},
		{get("/a", "X-Who: alice"), "1 true alice"},
		{get("/a", "x-who: alice"), "2 true alice"}, // which is the same
		{get("/a", "X-Who: bob"), "3 false bob"},
		{get("/a", "X-Who: bob", "X-Who: bob"), "4 false bob"},
		{get("/b", "X-Who: bob"), "5 false bob"},
		{get("/b", "X-Who: bob"), "6 true bob"},
		{get("/b", "X-Who: bob"), ""},
		{get("/b", "X-Who: bob"), "7 false bob"},
		{lines("POST /b HTTP/1.1", "Host: example.com", "Content-Length: 1") + "x", "8 false "},
		{lines("POST /b HTTP/1.1", "Host: example.com", "Content-Length: 1") + "y", "9 true "},
		{get("/b", long), "10 false "},
		{get("/b", long), "0 false "}, // nothing is kept of what is large
	} {
		blind.Store(tt.want == "")
		send(t, c, tt.request)
		if a := receive(t, r, "GET"); a.body != tt.want {
			t.Errorf("request %d: %q, want %q", i, a.body, tt.want)
		}
	}
	c, r = dial(t, s.addr)
	send(t, c, get("/b", "X-Who: bob"))
	if a := receive(t, r, "GET"); a.body != "0 false bob" {
		t.Errorf("another connection: %q, want nothing kept", a.body)
	}
}

// A connection that is idle for long keeps nothing, and is served as before; others keep their value.
func TestWhatIsKeptIsLetGoOfWhenNothingComes(t *testing.T) {
	const keepFor = 50 * time.Millisecond
	for name, idle := range map[string]time.Duration{"with a bound of idleness": patience, "without one": 0} {
		var finalized atomic.Bool
		s := start(t, func(w http.ResponseWriter, _ *http.Request) {
			kept, repeats := w.(ResponseWriter).Kept()
			if *kept == nil {
				held := new([64]byte)
				runtime.AddCleanup(held, func(*struct{}) { finalized.Store(true) }, nil)
				*kept = held
			}
			fmt.Fprint(w, repeats)
		}, func(s *Server) { s.keepFor, s.IdleTimeout = keepFor, idle })
		c, r := dial(t, s.addr)
		ask := func(want string) {
			t.Helper()
			send(t, c, get("/"))
			if a := receive(t, r, "GET"); a.body != want {
				t.Errorf("%s: repeats: %s, want %s", name, a.body, want)
			}
		}
		ask("false")
		await.True(t, "what is kept to be let go of", func() bool { runtime.GC(); return finalized.Load() })
		ask("false")
		repeated := false
		for end := time.Now().Add(4 * keepFor); time.Now().Before(end); { // longer than it is kept for who is idle
			send(t, c, get("/"))
			repeated = receive(t, r, "GET").body == "true" || repeated
		}
		if !repeated {
			t.Errorf("%s: nothing is kept for who is not idle", name)
		}
	}
}
