package gateway

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestUpstreamsTakeTurns(t *testing.T) {
	a, b, c := newRecorder(t), newRecorder(t), newRecorder(t)
	g := start(t, before(a.URL, b.URL, c.URL))
	for range 30 {
		get(t, g, "/")
	}
	for i, up := range []*recorder{a, b, c} {
		if n := len(up.taken()); n != 10 {
			t.Errorf("upstream %d saw %d requests, want 10", i, n)
		}
	}
}

func TestUnreachableUpstreamIsReplacedByAnother(t *testing.T) {
	up := newRecorder(t)
	c := before(refusing(t), up.URL)
	c.Routes[0].Ejection.After = -1 // so that each second one meets it
	g := start(t, c)
	for i := range 10 {
		body := strings.Repeat("b", i*1000)
		r, err := http.NewRequest(http.MethodPost, urlOf(g), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if a := do(t, http.DefaultClient, r); a.status != 200 {
			t.Fatalf("POST of %d bytes: %d, want 200: %s", len(body), a.status, a.body)
		}
		if got := up.one(t).body; got != body {
			t.Errorf("the upstream saw %d bytes, want %d", len(got), len(body))
		}
	}
	if got := g.Stats().Retries; got != 5 {
		t.Errorf("%d retries, want 5", got)
	}
}

// An upstream that has received the request and then closes the connection may have processed it.
func TestSentRequestsAreRetriedOnlyIfIdempotent(t *testing.T) {
	var broken atomic.Int32
	breaks := fake(t, func(_ net.Conn, r *bufio.Reader) {
		if _, err := readRequest(r); err == nil {
			broken.Add(1)
		}
	})
	up := newRecorder(t)
	for _, tt := range []struct {
		method, body string
		repeated     bool
	}{
		{"GET", "", true},
		{"HEAD", "", true},
		{"DELETE", "", true},
		{"PUT", "", true},
		{"POST", "", false},
		{"PATCH", "", false},
		{"POST", "body", false},
		{"PUT", "body", false},
	} {
		t.Run(tt.method+" "+tt.body, func(t *testing.T) {
			c := before(breaks, up.URL)
			c.Routes[0].Ejection.After = -1
			g := start(t, c)
			broken.Store(0)
			statuses := make(map[int]int)
			for range 10 {
				r, err := http.NewRequest(tt.method, urlOf(g), strings.NewReader(tt.body))
				if err != nil {
					t.Fatal(err)
				}
				statuses[do(t, http.DefaultClient, r).status]++
			}
			want := map[int]int{200: 5, 502: 5}
			if tt.repeated {
				want = map[int]int{200: 10}
			}
			if len(statuses) != len(want) || statuses[200] != want[200] {
				t.Errorf("responses %v, want %v", statuses, want)
			}
			if got := broken.Load(); got != 5 {
				t.Errorf("the first upstream was sent %d requests, want 5", got)
			}
			if got := len(up.taken()); got != want[200] {
				t.Errorf("the second upstream saw %d requests, want %d", got, want[200])
			}
		})
	}
}

func TestTimeoutsAreNotRetried(t *testing.T) {
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := before(slow.URL, slow.URL+"/")
	c.Routes[0].ResponseHeaderTimeout = 50 * time.Millisecond
	g := start(t, c)
	wantProblem(t, get(t, g, "/"), http.StatusGatewayTimeout)
	if got := g.Stats().Retries; got != 0 {
		t.Errorf("%d retries, want none", got)
	}
}
