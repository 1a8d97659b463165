package httplimit_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

// protocols are the ways in which a server of net/http is reached.
var protocols = []struct {
	name, proto string
	serve       func(t *testing.T, h http.Handler) (client *http.Client, url string)
}{
	{"HTTP/1.1", "HTTP/1.1", func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	}},
	{"HTTP/2", "HTTP/2.0", func(t *testing.T, h http.Handler) (*http.Client, string) {
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.Client(), s.URL
	}},
	{"HTTP/2 without TLS", "HTTP/2.0", func(t *testing.T, h http.Handler) (*http.Client, string) {
		var both, two http.Protocols
		both.SetHTTP1(true)
		both.SetUnencryptedHTTP2(true)
		two.SetUnencryptedHTTP2(true)
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = &both
		s.Start()
		transport := &http.Transport{Protocols: &two, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}}
		t.Cleanup(func() {
			transport.CloseIdleConnections()
			s.Close()
		})
		return &http.Client{Transport: transport}, s.URL
	}},
}

func TestEveryProtocolIsAnsweredAlike(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			g := newGate(t, perIP("1/m"), httplimit.Config{})
			client, url := p.serve(t, g.limit(ok))
			for i, want := range []struct {
				status                  int
				kind, state, retryAfter string
			}{
				{http.StatusOK, "text/plain; charset=utf-8", `"a";r=0;t=60`, ""},
				{http.StatusTooManyRequests, "application/problem+json", `"a";r=0;t=60`, "60"},
			} {
				resp, err := client.Get(url)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				h := resp.Header
				if resp.Proto != p.proto || resp.StatusCode != want.status || h.Get("Content-Type") != want.kind ||
					h.Get("RateLimit") != want.state || h.Get("Retry-After") != want.retryAfter || len(body) == 0 {
					t.Errorf("request %d: got %s %d %v %q, want %s %+v and a body", i, resp.Proto, resp.StatusCode, h, body, p.proto, want)
				}
			}
		})
	}
}

// dropping drops requests for /drop after the first.
var dropping = []rules.Rule{{
	ID: "a", Key: byIP, When: onPath("/drop"), Limits: enginetest.Limits("1/m"), OnLimit: rules.OnLimit{Action: rules.Drop},
}}

func TestDroppedRequestsGetNoAnswerAndReachNobody(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			g := newGate(t, dropping, httplimit.Config{})
			var served atomic.Int32
			h := g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				ok(w, r)
			}))
			client, url := p.serve(t, h)
			if resp, err := client.Get(url + "/drop"); err != nil {
				t.Fatal(err)
			} else {
				resp.Body.Close()
			}
			// POST, which no client sends again by itself.
			resp, err := client.Post(url+"/drop", "text/plain", strings.NewReader("text"))
			if err == nil {
				resp.Body.Close()
				t.Errorf("answered with %d, want no answer", resp.StatusCode)
			}
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused },
			})
			if resp, err = client.Do(mustRequest(t, url+"/other").WithContext(ctx)); err != nil {
				t.Fatalf("another request afterwards: %v", err)
			}
			resp.Body.Close()
			if want := p.proto == "HTTP/2.0"; reused != want {
				t.Errorf("the connection is used again: %v, want %v", reused, want)
			}
			if n := served.Load(); n != 2 {
				t.Errorf("%d were served, want the first and the last", n)
			}
		})
	}
}

func TestDroppedRequestsGetNoAnswerFromThoseWhoRecoverEither(t *testing.T) {
	g := newGate(t, dropping, httplimit.Config{})
	h := g.limit(ok)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, r)
	}))
	get(t, url+"/drop")
	resp, err := http.Post(url+"/drop", "text/plain", strings.NewReader("text"))
	if err == nil {
		resp.Body.Close()
		t.Errorf("answered with %d, want no answer", resp.StatusCode)
	}
}
