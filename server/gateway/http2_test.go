package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

// h2cClient speaks HTTP/2 without TLS.
func h2cClient(t testing.TB) *http.Client {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// serveH2C runs an upstream that speaks HTTP/2 without TLS.
func serveH2C(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return "h2c://" + s.Listener.Addr().String()
}

func TestHTTP2WithoutTLS(t *testing.T) {
	up := newRecorder(t)
	g := start(t, before(up.URL))
	client := h2cClient(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			body := strings.Repeat("x", i*1000)
			r, err := http.NewRequest(http.MethodPost, urlOf(g)+"/x/../y", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || res.ProtoMajor != 2 || string(got) != "served /y" {
				t.Errorf("%s %q, %v, want HTTP/2.0 and the response", res.Proto, got, err)
			}
		})
	}
	all.Wait()
	for _, one := range up.taken() {
		if one.proto != "HTTP/1.1" || one.header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("the upstream saw %+v", one)
		}
	}
}

func TestHTTP2CanBeTurnedOff(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.Listeners = []Listener{{NoHTTP2: true}}
	g := start(t, c)
	if res, err := h2cClient(t).Get(urlOf(g)); err == nil {
		res.Body.Close()
		t.Errorf("got %s, want an error", res.Proto)
	}
	if a := get(t, g, "/"); a.status != 200 {
		t.Errorf("HTTP/1.1: %d, want 200", a.status)
	}
}

func TestHTTP2Upstreams(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		one, err := readAll(r)
		if err != nil {
			return
		}
		w.Header().Set("X-Seen", one.proto+" "+one.method+" "+one.target+" "+one.host)
		w.Header().Set("X-For", r.Header.Get("X-Forwarded-For"))
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, one.body)
		w.Header().Set("X-Sum", one.trailer.Get("X-Check"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(handler))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer secure.Close()
	ca := t.TempDir() + "/ca.pem"
	writeCA(t, ca, secure.Certificate())
	for name, u := range map[string]Upstream{
		"without TLS": {URL: serveH2C(t, handler)},
		"with TLS":    {URL: strings.Replace(secure.URL, "https", "h2", 1), TLS: &UpstreamTLS{CAFile: ca}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{Routes: []Route{{Upstreams: []Upstream{u}}}})
			for _, client := range []*http.Client{http.DefaultClient, h2cClient(t)} {
				r, err := http.NewRequest(http.MethodPost, urlOf(g)+"/a%20b?c", io.MultiReader(strings.NewReader("body")))
				if err != nil {
					t.Fatal(err)
				}
				r.Trailer = http.Header{"X-Check": {"42"}}
				a := do(t, client, r, "Host: a.example")
				if a.status != 200 || a.body != "body" {
					t.Fatalf("got %d %q, want 200 body", a.status, a.body)
				}
				if got := a.header.Get("X-Seen"); got != "HTTP/2.0 POST /a%20b?c a.example" {
					t.Errorf("the upstream saw %s", got)
				}
				if got := a.header.Get("X-For"); got != "127.0.0.1" {
					t.Errorf("X-Forwarded-For %q", got)
				}
				if a.trailer.Get("X-Sum") != "42" || a.trailer.Get("X-Late") != "1" {
					t.Errorf("trailers %v, want X-Sum and X-Late", a.trailer)
				}
			}
		})
	}
}

// An HTTP/2 upstream does not support upgrades, so it gets an ordinary request.
func TestUpgradesAreNotSentToHTTP2(t *testing.T) {
	url := serveH2C(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "upgrade "+r.Header.Get("Upgrade"))
	})
	g := start(t, before(url))
	if _, _, a := websocket(t, g); a.status != http.StatusOK || a.body != "upgrade " {
		t.Errorf("got %d %q, want 200 and no upgrade", a.status, a.body)
	}
}

func TestUpstreamCertificateIsVerified(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.TLS.ServerName) }))
	defer up.Close()
	up.Config.ErrorLog = nil
	ca := t.TempDir() + "/ca.pem"
	writeCA(t, ca, up.Certificate())
	for name, tt := range map[string]struct {
		tls    *UpstreamTLS
		status int
	}{
		"known":         {&UpstreamTLS{CAFile: ca, ServerName: "example.com"}, 200},
		"by address":    {&UpstreamTLS{CAFile: ca}, 200},
		"unknown":       {nil, 502},
		"another name":  {&UpstreamTLS{CAFile: ca, ServerName: "other.test"}, 502},
		"not looked at": {&UpstreamTLS{InsecureSkipVerify: true}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{Routes: []Route{{Upstreams: []Upstream{{URL: up.URL, TLS: tt.tls}}}}})
			if a := get(t, g, "/"); a.status != tt.status {
				t.Errorf("status %d, want %d: %s", a.status, tt.status, a.body)
			}
		})
	}
}

// Over HTTP/2 both sides send at the same time, without a limit.
func TestFullDuplexOverHTTP2(t *testing.T) {
	t.Parallel()
	up := serveH2C(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				_, _ = w.Write(bytes.ToUpper(buffer[:n]))
				_ = rc.Flush()
			}
			if err != nil {
				return
			}
		}
	})
	c := before(up)
	c.BodyTimeout = time.Second // it applies only until the response has begun
	c.WriteTimeout = time.Second
	g := start(t, c)
	in, out := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, urlOf(g), in)
	if err != nil {
		t.Fatal(err)
	}
	res, err := h2cClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, word := range []string{"one", "two"} {
		time.Sleep(1200 * time.Millisecond) // longer than the bounds
		if _, err := io.WriteString(out, word); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(word))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != strings.ToUpper(word) {
			t.Fatalf("got %q, %v, want %s in capitals", got, err, word)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v, want the end", rest, err)
	}
}

func TestBodyLimitsApplyToHTTP2(t *testing.T) {
	up := newRecorder(t)
	c := before(up.URL)
	c.MaxBody = 1000
	g := start(t, c)
	client := h2cClient(t)
	for name, tt := range map[string]struct {
		body   io.Reader
		status int
	}{
		"too large":                    {strings.NewReader(strings.Repeat("x", 1001)), http.StatusRequestEntityTooLarge},
		"too large, of unknown length": {io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))), http.StatusRequestEntityTooLarge},
		"just as much":                 {io.MultiReader(strings.NewReader(strings.Repeat("x", 1000))), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, urlOf(g), tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if a := do(t, client, r); a.status != tt.status {
				t.Errorf("status %d, want %d: %s", a.status, tt.status, a.body)
			}
			if n := len(up.taken()); n > 0 != (tt.status == http.StatusOK) {
				t.Errorf("the upstream saw %d requests", n)
			}
		})
	}
	t.Run("too slow", func(t *testing.T) {
		c.BodyTimeout = 100 * time.Millisecond
		g := start(t, c)
		in, out := io.Pipe()
		defer func() { _ = out.Close() }()
		go func() { _, _ = io.WriteString(out, "x") }()
		r, err := http.NewRequest(http.MethodPost, urlOf(g), in)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = out.Close() // otherwise the client would wait for more of the body
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("status %d, want 408", res.StatusCode)
		}
	})
}

// A response that is cut off is recognizable over HTTP/2 too.
func TestTruncatedResponsesResetStream(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
		panic(http.ErrAbortHandler)
	})
	up2 := serveH2C(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for name, url := range map[string]string{"HTTP/1.1": up.URL, "HTTP/2": up2} {
		g := start(t, before(url))
		for _, client := range []*http.Client{http.DefaultClient, h2cClient(t)} {
			res, err := client.Get(urlOf(g))
			if err != nil {
				continue // no response at all is as clear
			}
			if n, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Errorf("upstream of %s, client of %s: %d bytes look complete", name, res.Proto, n)
			}
			res.Body.Close()
		}
	}
}

// HTTP/2 clients that do not read their responses hold nothing for long.
func TestUnreadStreamsAreAborted(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, 64<<20) })
	c := before(up.URL)
	c.WriteTimeout = 2 * time.Second
	g := start(t, c)
	client := h2cClient(t)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, urlOf(g), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
	}
	await.True(t, "nothing is in flight", func() bool { s := g.Stats(); return s.InFlight == 0 && s.Upstreams[0].InFlight == 0 })
}

func TestInterimResponsesAreForwarded(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</b.css>")
		_, _ = io.WriteString(w, "done")
	}
	for name, url := range map[string]string{"HTTP/1.1": serve(t, handler).URL, "HTTP/2": serveH2C(t, handler)} {
		t.Run(name, func(t *testing.T) {
			g := start(t, before(url))
			conn, r := dial(t, g)
			send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
			hints := receive(t, r, "GET")
			if hints.status != http.StatusEarlyHints || hints.header.Get("Link") != "</a.css>; rel=preload" {
				t.Errorf("got %d %v, want 103 with the first link", hints.status, hints.header)
			}
			a := receive(t, r, "GET")
			if a.status != 200 || a.body != "done" || strings.Join(a.header["Link"], "|") != "</b.css>" {
				t.Errorf("got %d %q %v, want 200 with the second link alone", a.status, a.body, a.header["Link"])
			}
		})
	}
}

func TestHTTP2OverTLS(t *testing.T) {
	dir := t.TempDir()
	files := makeCertificate(t, dir, "one", "localhost")
	up := newRecorder(t)
	c := before(up.URL)
	c.Listeners = []Listener{{TLS: &TLS{Certificates: []CertificateFiles{files}}}}
	g := start(t, c)
	for _, want := range []int{1, 2} {
		p := new(http.Protocols)
		p.SetHTTP1(want == 1)
		p.SetHTTP2(want == 2)
		tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Get("https://" + addrOf(g) + "/x")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.ProtoMajor != want || res.StatusCode != 200 {
			t.Errorf("got %s %d, want HTTP/%d and 200", res.Proto, res.StatusCode, want)
		}
		if got := up.one(t).header.Get("X-Forwarded-Proto"); got != "https" {
			t.Errorf("X-Forwarded-Proto %q, want https", got)
		}
	}
}
