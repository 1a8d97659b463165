package grpcapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racing"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// Two thousand idle connections cost some kilobytes each, and others are still served.
func TestIdleConnectionsCostLittle(t *testing.T) {
	racing.Skip(t, "the race detector has a shadow of everything")
	s, address := start(t, Config{})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	if _, err := limiter.RateLimit(patient(t), ask("paul", "/api/x")); err != nil {
		t.Fatal(err)
	}
	const n = 2000
	before := memory()
	preface := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(preface); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil { // the server's settings: it is served
			t.Fatal(err)
		}
	}
	if got := s.Conns().Open(); got < n {
		t.Fatalf("got %d connections, want %d", got, n)
	}
	each := (memory() - before) / n
	t.Logf("%d bytes each", each)
	if each > 64<<10 {
		t.Errorf("an idle connection takes %d bytes, want at most 64 KiB", each)
	}
	if got, err := limiter.RateLimit(patient(t), ask("paul", "/api/x")); err != nil || !got.Passed {
		t.Errorf("another client: got %v, %v; want it served", got, err)
	}
}

// memory returns the memory in use, including stacks.
func memory() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Half a header, then silence: others do not wait for it.
func TestStalledHeaderBlocksNobody(t *testing.T) {
	_, address := start(t, Config{})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	hello := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	if _, err := conn.Write(append(hello, 0, 0, 200, 1, 4, 0, 0, 0, 1, 0x83)); err != nil { // a part of a header
		t.Fatal(err)
	}
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx, end := context.WithTimeout(context.Background(), patience)
	defer end()
	if got, err := limiter.RateLimit(ctx, ask("rita", "/api/x")); err != nil || !got.Passed {
		t.Errorf("another client: got %v, %v; want it served", got, err)
	}
	_ = conn.Close()
}

// Half a message, then silence, and no deadline: the server ends the call.
func TestStalledMessageEndsTheCall(t *testing.T) {
	_, address := start(t, Config{CallTimeout: 50 * time.Millisecond})
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	half, rest := io.Pipe()
	defer func() { _ = rest.Close() }()
	r, err := http.NewRequestWithContext(patient(t), http.MethodPost, "http://"+address+headgatev1.RateLimiter_RateLimit_FullMethodName, half)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	go func() { _, _ = rest.Write([]byte{0, 0, 0, 0, 100, 1, 2, 3}) }() // 3 bytes of 100
	response, err := transport.RoundTrip(r)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if code := response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status"); code != "4" {
			t.Errorf("got status %q, %v; want 4, deadline exceeded", code, err)
		}
	}
	if patient(t).Err() != nil {
		t.Error("the call did not end")
	}
	// A stream may be silent for any time.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := headgatev1.NewRateLimiterClient(dial(t, address)).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // longer than a call may take
	if err := stream.Send(&headgatev1.StreamRequest{Id: 1, Request: ask("sam", "/api/x")}); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || !got.Response.Passed {
		t.Errorf("a stream: got %v, %v; want an answer", got, err)
	}
}
