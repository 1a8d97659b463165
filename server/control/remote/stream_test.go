package remote_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// A broken stream continues where it was.
func TestWatchReconnects(t *testing.T) {
	t.Parallel()
	resumed := make(chan string, 10)
	next := 0
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		resumed <- r.Header.Get("Last-Event-ID")
		next++
		switch next {
		case 2:
			answer(w, http.StatusServiceUnavailable, "text/plain", "starting")
			return
		case 3:
			answer(w, http.StatusOK, "text/html", "<html>")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = fmt.Fprintf(w, ": hello\n\nid: %d\nevent: other\ndata: {}\n\nid: %d\nevent: revision\ndata: {\"namespace\":\"shop\",\ndata: \"revision\":%d}\n\n", next, 10*next, 10*next)
	})
	var got []string
	for e, err := range c.Watch(t.Context()) {
		if err != nil {
			got = append(got, "error")
			continue
		}
		got = append(got, fmt.Sprint(e.Namespace, e.Revision))
		if e.Revision == 40 {
			break
		}
	}
	// The first stream ends, the second is refused, the third is not a stream.
	if want := "[shop10 error error error shop10 shop40]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, want := range []string{"", "10", "10", "10"} {
		if id := <-resumed; id != want {
			t.Errorf("resumed after %q, want %q", id, want)
		}
	}
}

func TestSilentStreamIsBroken(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	c := service(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-held
	})
	defer close(held)
	c.SetSilence(50 * time.Millisecond)
	for _, err := range c.Watch(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "no data from the rules service") {
			t.Errorf("got %v", err)
		}
		break
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := service(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, "text/plain", "")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := 0
	for range c.Watch(ctx) {
		count++
		cancel()
	}
	if count != 1 {
		t.Errorf("got %d, want one error and then the end", count)
	}
}

// write writes a snapshot of the given number of clients.
func write(t *testing.T, w io.Writer, h control.Header, count int) {
	t.Helper()
	to, err := control.NewWriter(w, h)
	if err != nil {
		t.Error(err)
		return
	}
	for i := range count {
		if err := to.Write(&control.Item{Kind: control.KindClient, ID: fmt.Sprint("c", i), Body: []byte(`{"id":"c"}`)}); err != nil {
			return // the reader has disconnected
		}
	}
	_ = to.Close()
}

func TestSnapshotIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	c := service(t, func(w http.ResponseWriter, r *http.Request) {
		if since := r.URL.Query().Get("since"); since == "42-7" && r.Header.Get("If-None-Match") == `"42-7"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", control.SnapshotType)
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		write(t, packed, control.Header{Namespace: "shop", Revision: 42, Since: 41}, 1000)
		_ = packed.Close()
	})
	s, err := c.Snapshot(t.Context(), control.Mark{Revision: 41, CommitMicros: 6})
	if err != nil {
		t.Fatal(err)
	}
	if s.Header.Revision != 42 || s.Header.Since != 41 {
		t.Errorf("got %+v", s.Header)
	}
	count := 0
	for {
		item, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if item.ID != fmt.Sprint("c", count) {
			t.Errorf("got %s", item.ID)
		}
		count++
	}
	if count != 1000 || s.Bytes() < 20_000 {
		t.Errorf("got %d objects of %d bytes", count, s.Bytes())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if s, err := c.Snapshot(t.Context(), control.Mark{Revision: 42, CommitMicros: 7}); s != nil || err != nil {
		t.Errorf("nothing new: got %v, %v", s, err)
	}
}

func TestIncompleteSnapshotIsAnError(t *testing.T) {
	t.Parallel()
	var serve func(w http.ResponseWriter)
	c := service(t, func(w http.ResponseWriter, _ *http.Request) { serve(w) })
	read := func() error {
		s, err := c.Snapshot(t.Context(), control.Mark{})
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		for {
			if _, err := s.Next(); err != nil {
				return err
			}
		}
	}
	for name, tt := range map[string]struct {
		serve func(w http.ResponseWriter)
		want  error
	}{
		"cut off": {func(w http.ResponseWriter) {
			var b strings.Builder
			write(t, &b, control.Header{Namespace: "shop", Revision: 1}, 10)
			_, _ = io.WriteString(w, b.String()[:b.Len()-20])
		}, control.ErrBroken},
		"changed": {func(w http.ResponseWriter) {
			var b strings.Builder
			write(t, &b, control.Header{Namespace: "shop", Revision: 1}, 10)
			_, _ = io.WriteString(w, strings.Replace(b.String(), "c5", "c6", 1))
		}, control.ErrBroken},
		"nothing":              {func(http.ResponseWriter) {}, control.ErrBroken},
		"of another namespace": {func(w http.ResponseWriter) { write(t, w, control.Header{Namespace: "other", Revision: 1}, 0) }, control.ErrBroken},
		"whole":                {func(w http.ResponseWriter) { write(t, w, control.Header{Namespace: "shop", Revision: 1}, 10) }, io.EOF},
	} {
		serve = tt.serve
		if err := read(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
}

func TestStalledSnapshotIsAnError(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		write(t, &b, control.Header{Namespace: "default", Revision: 1}, 1000)
		_, _ = io.WriteString(w, b.String()[:b.Len()/2])
		_ = http.NewResponseController(w).Flush()
		<-held
	}))
	defer server.Close()
	defer close(held)
	c, err := remote.New(remote.Config{URL: server.URL, Timeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(t.Context(), control.Mark{})
	for err == nil {
		_, err = s.Next()
	}
	if !errors.Is(err, control.ErrBroken) || !strings.Contains(err.Error(), "no data from the rules service") {
		t.Errorf("got %v", err)
	}
	_ = s.Close()
}
