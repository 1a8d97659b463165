package grpcapi

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// Two thousand connections on which nothing comes cost some kilobytes each, and others are served beside them.
func TestIdleConnectionsCostLittle(t *testing.T) {
	if racing {
		t.Skip("the race detector has a shadow of everything")
	}
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

// memory returns what is in use, stacks included.
func memory() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// Half a message, then silence: the call waits for its own deadline, others do not wait for it, and Shutdown ends it.
func TestHalfAMessageThenSilenceHoldsNobody(t *testing.T) {
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
