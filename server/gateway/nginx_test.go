package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/await"
)

// need returns the path of a program that a test requires.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("this test needs %s on the PATH; on Debian: apt-get install %s", program, program)
	}
	return path
}

// startNginx runs an nginx in front of a gateway, and returns its address.
func startNginx(t *testing.T, upstream string) string {
	t.Helper()
	program := need(t, "nginx")
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	config := `
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
	upstream gateway { server ` + upstream + `; keepalive 8; }
	server {
		listen ` + address + `;
		location / {
			proxy_pass http://gateway;
			proxy_http_version 1.1;
			proxy_set_header Host $http_host;
			proxy_set_header Connection $connection_upgrade;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
			proxy_set_header X-Forwarded-Proto https;
			proxy_set_header X-Forwarded-Host $host;
			proxy_set_header X-Request-ID $request_id;
		}
	}
}
`
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "-p", dir, "-c", path)
	command.Stderr, command.Stdout = &output, &output
	command.WaitDelay = patience
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // it was killed
		if t.Failed() {
			t.Logf("nginx says:\n%s", &output)
		}
	})
	await.True(t, "nginx listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address
}

// from returns a client that connects from an address of its own.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	tr := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func TestNginxInFrontIsATrustedProxy(t *testing.T) {
	up := newRecorder(t)
	id := identify(t, identity.Config{TrustedProxies: nets(t, "127.0.0.1")})
	c := before(up.URL)
	c.Identity = id
	var mu sync.Mutex
	var saw string
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var who identity.Attributes
			id.Read(r, &who)
			mu.Lock()
			saw = who.Addr().String()
			mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	nginx := startNginx(t, addrOf(g))

	ask := func(client *http.Client, address, path string, header ...string) (clientResponse, record) {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, "http://"+address+path, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		a := do(t, client, r, header...)
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return a, up.one(t)
	}
	spoofs := []string{"Host: shop.example", "X-Forwarded-For: 203.0.113.66", "X-Request-ID: mine", "X-Forwarded-Proto: gopher", "Forwarded: for=203.0.113.66"}

	// Behind nginx the client is identified by its address; headers of its own do not count.
	a, got := ask(from(t, "127.0.0.2"), nginx, "/a/../b", spoofs...)
	if saw != "127.0.0.2" {
		t.Errorf("through nginx the limiter saw %s, want 127.0.0.2", saw)
	}
	if got.target != "/b" || got.body != "body" || got.host != "shop.example" {
		t.Errorf("the upstream saw %+v", got)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "203.0.113.66, 127.0.0.2, 127.0.0.1", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "shop.example",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("through nginx %s %q, want %q", name, value, want)
		}
	}
	if sent := got.header.Get("X-Request-ID"); len(sent) != 32 || sent == "mine" || a.header.Get("X-Request-ID") != sent {
		t.Errorf("X-Request-ID %q, and %q for the client, want that of nginx", sent, a.header.Get("X-Request-ID"))
	}

	// Headers of clients that bypass nginx do not count.
	_, got = ask(from(t, "127.0.0.3"), addrOf(g), "/", spoofs...)
	if saw != "127.0.0.3" {
		t.Errorf("past nginx the limiter saw %s, want 127.0.0.3", saw)
	}
	if xff, proto := got.header.Get("X-Forwarded-For"), got.header.Get("X-Forwarded-Proto"); xff != "127.0.0.3" || proto != "http" {
		t.Errorf("past nginx X-Forwarded-For %q, X-Forwarded-Proto %q", xff, proto)
	}
	if got.header.Get("Forwarded") != "" || got.header.Get("X-Request-ID") == "mine" {
		t.Errorf("past nginx spoofs got through: %v", got.header)
	}

	// Requests that follow each other on connections that nginx keeps are kept apart.
	var all sync.WaitGroup
	client := from(t, "127.0.0.2")
	for i := range 4 {
		all.Go(func() {
			for j := range 25 {
				path := "/" + itoa(i) + "/" + itoa(j)
				res, err := client.Get("http://" + nginx + path)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || string(body) != "served "+path {
					t.Errorf("got %q, %v, want what belongs to %s", body, err, path)
				}
			}
		})
	}
	all.Wait()
}

func TestWebSocketsPassThroughNginxToo(t *testing.T) {
	up := echo(t)
	c := before(up.URL)
	c.Identity = identify(t, identity.Config{TrustedProxies: nets(t, "127.0.0.1")})
	g := start(t, c)
	conn, err := netDial(t, startNginx(t, addrOf(g)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	send(t, conn, lines("GET /chat HTTP/1.1", "Host: a.example", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	r := newReader(conn)
	if a := receive(t, r, "GET"); a.status != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", a.status)
	}
	converse(t, conn, r, "hello", "world")
}

func TestCurl(t *testing.T) {
	program := need(t, "curl")
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		one, err := readAll(r)
		if err != nil {
			return
		}
		_, _ = io.WriteString(w, one.method+" "+one.target+" "+one.body)
	})
	c := before(up.URL)
	c.MaxBody = 100_000
	c.Listeners = []Listener{{}, {TLS: &TLS{Certificates: []CertificateFiles{files}}}}
	g := start(t, c)
	plain, secure := urlOf(g), "https://"+g.Addrs()[1].String()
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("x"), 200_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		want string // the response, its status and its version
	}{
		"HTTP/1.1":          {[]string{"--http1.1", plain + "/a"}, "GET /a  200 1.1"},
		"HTTP/1.0":          {[]string{"--http1.0", plain + "/a"}, "GET /a  200 1"},
		"h2c":               {[]string{"--http2-prior-knowledge", plain + "/a"}, "GET /a  200 2"},
		"TLS":               {[]string{"-k", "--http1.1", secure + "/a"}, "GET /a  200 1.1"},
		"HTTP/2 over TLS":   {[]string{"-k", "--http2", secure + "/a"}, "GET /a  200 2"},
		"an upgrade to h2c": {[]string{"--http2", plain + "/a"}, "GET /a  200 1.1"},
		"a form":            {[]string{"-d", "a=b", plain + "/f"}, "POST /f a=b 200 1.1"},
		"a form by HTTP/2":  {[]string{"--http2-prior-knowledge", "-d", "a=b", plain + "/f"}, "POST /f a=b 200 2"},
		"in chunks":         {[]string{"-H", "Transfer-Encoding: chunked", "-d", "a=b", plain + "/f"}, "POST /f a=b 200 1.1"},
		"dots":              {[]string{"--path-as-is", plain + "/x/../../y"}, "GET /y  200 1.1"},
		"two requests":      {[]string{plain + "/1", "--next", "-sS", "-w", " %{http_code} %{http_version}", plain + "/2"}, "GET /1  200 1.1GET /2  200 1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := curl(t, program, tt.args...); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		// Not by HTTP/2: some versions of curl take the end of the request's stream for an error (RFC 9113 section 8.1).
		for _, args := range [][]string{{"--http1.1"}, {"--http1.1", "-H", "Transfer-Encoding: chunked"}, {"--http1.1", "-H", "Expect: 100-continue"}} {
			got := curl(t, program, append(args, "--data-binary", "@"+big, plain)...)
			if !strings.Contains(got, "Request Entity Too Large") || !strings.Contains(got, " 413 ") {
				t.Errorf("%v: got %q, want a problem of 413", args, got)
			}
		}
	})
}

func curl(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program, append([]string{"-sS", "-w", " %{http_code} %{http_version}", "--noproxy", "*"}, args...)...)
	command.WaitDelay = time.Second
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("curl %v: %v: %s (so far %q)", args, err, &stderr, out)
	}
	return string(out)
}
