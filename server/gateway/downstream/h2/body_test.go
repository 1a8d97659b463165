package h2

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

func TestBodiesMustMatchContentLength(t *testing.T) {
	result := make(chan error, 1)
	s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		result <- err
	})
	c := connect(t, s)
	for i, send := range []func(id uint32){
		func(id uint32) { c.data(id, true, "1234") },
		func(id uint32) { c.data(id, false, "123456") },
		func(id uint32) { c.headers(id, true, "x-a", "b") },
		func(id uint32) { c.data(id, true, "") },
	} {
		id := uint32(2*i + 1)
		c.headers(id, false, postFields("content-length", "5")...)
		send(id)
		c.reset(id, http2.ErrCodeProtocol)
		if err := <-result; err == nil {
			t.Errorf("body %d was read, want an error", i)
		}
	}
	c.headers(9, false, postFields("content-length", "5")...)
	c.data(9, false, "123")
	c.must(c.framer.WriteDataPadded(9, true, []byte("45"), make([]byte, 100)))
	c.ok(9)
	if err := <-result; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// The client may send as much as the window allows, and more when the handler has read.
func TestUnreadBodiesFillWindow(t *testing.T) {
	read, release := make(chan struct{}), make(chan struct{})
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-read
		n, err := io.CopyN(io.Discard, r.Body, streamWindow)
		if n != streamWindow || err != nil {
			t.Errorf("read %d, %v, want all", n, err)
		}
		<-release
		_, _ = io.Copy(io.Discard, r.Body)
	})
	c := connect(t, s)
	c.headers(1, false, postFields()...)
	part := strings.Repeat("x", maxFrameSize)
	for range streamWindow / maxFrameSize {
		c.data(1, false, part)
	}
	c.alive() // all was received
	c.conn.mu.Lock()
	if n := len(c.conn.streams[1].body.received.chunks) * len(chunk{}); n > streamWindow+len(chunk{}) {
		t.Errorf("%d bytes are buffered, want at most the window", n)
	}
	c.conn.mu.Unlock()
	close(read)
	delete(c.skip, http2.FrameWindowUpdate)
	widened := map[uint32]uint32{}
	for widened[0] < streamWindow || widened[1] < streamWindow {
		f, ok := c.read().(*http2.WindowUpdateFrame)
		if !ok {
			t.Fatalf("got %v, want WINDOW_UPDATE", f)
		}
		widened[f.StreamID] += f.Increment
	}
	for range streamWindow / maxFrameSize {
		c.data(1, false, part)
	}
	c.must(c.framer.WriteData(1, false, []byte("x")))
	if f, ok := c.read().(*http2.GoAwayFrame); !ok || f.ErrCode != http2.ErrCodeFlowControl {
		t.Errorf("got %v, want FLOW_CONTROL_ERROR", f)
	}
	close(release)
}

// Unread bytes of a closed body do not use up the window of the connection.
func TestUnreadBodiesGiveTheirWindowBack(t *testing.T) {
	c := connect(t, newServer(t, func(http.ResponseWriter, *http.Request) {}))
	part := strings.Repeat("x", maxFrameSize)
	for i := range uint32(10) {
		id := 2*i + 1
		c.headers(id, false, postFields()...)
		for range 20 { // 3 MB in all
			c.data(id, false, part)
		}
		c.ok(id)
		c.reset(id, http2.ErrCodeNo)
	}
	c.alive()
}

func TestExpectContinue(t *testing.T) {
	c := connect(t, newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/x" || r.Header.Get("Expect") != "" {
			t.Errorf("got path %s, Expect %q", r.URL.Path, r.Header.Get("Expect"))
		}
		if r.Header.Get("X-Refuse") != "" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		echo(w, r)
	}))
	c.headers(1, false, postFields("expect", "100-continue")...)
	if f, ok := c.read().(*http2.MetaHeadersFrame); !ok || f.PseudoValue("status") != "100" || f.StreamEnded() {
		t.Fatalf("got %v, want 100", f)
	}
	c.data(1, true, "hello")
	if a := c.ok(1); a.body != "hello" {
		t.Errorf("got %q, want hello", a.body)
	}
	c.headers(3, false, postFields("expect", "100-continue", "x-refuse", "1")...)
	if a := c.receive(3); a.status != "403" {
		t.Errorf("got %s, want 403 without 100", a.status)
	}
	c.reset(3, http2.ErrCodeNo)
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, newServer(t, func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.SetReadDeadline(time.Now().Add(time.Second))
			b := make([]byte, 10)
			began := time.Now()
			if n, err := r.Body.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %d, %v, want a timeout", n, err)
			}
			if took := time.Since(began); took != time.Second {
				t.Errorf("it took %v, want 1s", took)
			}
			_ = rc.SetReadDeadline(time.Time{})
			go func() {
				time.Sleep(time.Minute)
				_ = rc.SetReadDeadline(time.Now()) // ends the read
			}()
			if _, err := r.Body.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("got %v, want a timeout", err)
			}
		}))
		c.headers(1, false, postFields()...)
		c.ok(1)
		c.reset(1, http2.ErrCodeNo)
	})
}

// A goroutine that still reads the body when the request has ended gets an error.
func TestBodyCannotBeReadAfterTheRequest(t *testing.T) {
	result := make(chan error, 1)
	c := connect(t, newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		body, reading := r.Body, make(chan struct{})
		go func() {
			close(reading)
			_, err := io.ReadAll(body)
			result <- err
		}()
		<-reading
	}))
	c.headers(1, false, postFields()...)
	c.ok(1)
	c.reset(1, http2.ErrCodeNo)
	if err := <-result; !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("got %v, want %v", err, http.ErrBodyReadAfterClose)
	}
}
