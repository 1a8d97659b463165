package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// keeping is a server that has a place for what a limiter keeps with a connection, on which all requests are the same.
type keeping struct {
	identified
	kept any
	n    int // requests so far
}

func (w *keeping) Kept() (kept *any, repeats bool) { return &w.kept, w.n > 0 }

// serves has a handler answer the connection's next request.
func (w *keeping) serves(h http.Handler, r *http.Request) int {
	w.ResponseRecorder = httptest.NewRecorder()
	w.by.Read(r, w.who)
	h.ServeHTTP(w, r)
	w.n++
	code := w.Code
	w.ResponseRecorder = nil
	return code
}

// keepingGate returns a handler behind a limiter, and what makes connections to it.
func keepingGate(t *testing.T, list []rules.Rule) (h http.Handler, connect func() *keeping) {
	t.Helper()
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := newTimedGate(t, list, httplimit.Config{Identifier: id})
	who := new(identity.Attributes) // as the gateway's, it is that of one request after another
	return g.limit(ok), func() *keeping { return &keeping{identified: identified{by: id, who: who}} }
}

// What is kept with a connection is little, and nothing if it would be much or of no use.
func TestWhatIsKeptWithAConnectionIsLittle(t *testing.T) {
	one := rules.Rule{ID: "each", Key: byAPIKey, Limits: enginetest.Limits("1000000/h")}
	shadow, slots := one, one
	shadow.OnLimit = rules.OnLimit{Action: rules.Shadow}
	slots.Limits = enginetest.Limits("5 concurrent")
	many := func(n int) (list []rules.Rule) {
		for i := range n {
			list = append(list, rules.Rule{
				ID: fmt.Sprint("r", i), Key: byAPIKey, Limits: enginetest.Limits("1000000/h", "1000000/m"),
			})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		rules []rules.Rule
		kept  bool
		most  float64 // bytes
	}{
		{"a limit", []rules.Rule{one}, true, 3 << 10},
		{"eight limits", many(4), true, 9 << 10},
		{"many limits", many(80), false, 512},
		{"a rule that is not simple", []rules.Rule{shadow}, false, 512},
		{"slots", []rules.Rule{slots}, false, 512},
		{"no rule", nil, false, 512},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, connect := keepingGate(t, c.rules)
			r := asked("/")
			r.Header.Set("X-API-Key", "k")
			const n = 400
			connections := make([]*keeping, n)
			for i := range connections {
				connections[i] = connect()
			}
			connect().serves(h, r) // which makes the counters
			before := heap()
			for _, w := range connections {
				for range 4 {
					if code := w.serves(h, r); code != http.StatusOK {
						t.Fatalf("status %d, want 200", code)
					}
				}
				if kept := w.kept != nil; kept != c.kept {
					t.Fatalf("kept %v, want %v", kept, c.kept)
				}
			}
			if each := (float64(heap()) - float64(before)) / n; each > c.most {
				t.Errorf("%.0f bytes are kept with each connection, want at most %.0f", each, c.most)
			} else {
				t.Logf("%.0f bytes", each)
			}
			runtime.KeepAlive(connections)
		})
	}
}

// heap returns how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 { // what pools hold outlives one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What was kept of a connection's requests is given back when another of them comes under many limits.
func TestWhatIsKeptIsGivenBackWhenItBecomesMuch(t *testing.T) {
	list := []rules.Rule{{ID: "each", Key: byAPIKey, Limits: enginetest.Limits("100/h")}}
	for i := range 80 {
		list = append(list, rules.Rule{
			ID: fmt.Sprint("r", i), When: onPath("/much"), Key: byAPIKey, Limits: enginetest.Limits("1000/h"),
		})
	}
	h, connect := keepingGate(t, list)
	w := connect()
	request := func(path string, same, kept bool) {
		t.Helper()
		r := asked(path)
		r.Header.Set("X-API-Key", "k")
		if !same {
			w.n = 0
		}
		if code := w.serves(h, r); code != http.StatusOK || (w.kept != nil) != kept {
			t.Errorf("%s: %d, kept %v; want 200, %v", path, code, w.kept != nil, kept)
		}
	}
	request("/", false, false)
	request("/", true, true)
	request("/", true, true)
	request("/much", false, false)
	request("/much", true, false)
}
