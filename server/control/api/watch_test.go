package api_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

// A watching is an open watch of a namespace.
type watching struct {
	t      testing.TB
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func (s *service) watch(token, namespace, last string) (*watching, error) {
	ctx, cancel := context.WithCancel(s.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/watch?namespace="+namespace, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	got, err := s.client.Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	if kind := got.Header.Get("Content-Type"); got.StatusCode != 200 || kind != "text/event-stream" {
		cancel()
		_ = got.Body.Close()
		return nil, fmt.Errorf("watch: got %d %s", got.StatusCode, kind)
	}
	return &watching{s.t, got.Body, bufio.NewReader(got.Body), cancel}, nil
}

func (w *watching) close() {
	w.cancel()
	_ = w.body.Close()
}

// next returns the data and the ID of the next event.
func (w *watching) next() (data string, id int64, err error) {
	for {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			return "", 0, err
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case name == "id":
			if id, err = strconv.ParseInt(value, 10, 64); err != nil {
				return "", 0, err
			}
		case name == "data":
			data = value
		case line == "\n" && data != "":
			return data, id, nil
		}
	}
}

func (s *service) mustWatch(token, namespace, last string) *watching {
	s.t.Helper()
	w, err := s.watch(token, namespace, last)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.close)
	return w
}

// wants fails unless the next event has a revision.
func (w *watching) wants(revision int64) {
	w.t.Helper()
	data, id, err := w.next()
	if err != nil {
		w.t.Fatal(err)
	}
	if want := fmt.Sprintf(`{"namespace":"default","revision":%d}`, revision); data != want || id != revision {
		w.t.Fatalf("event: got %s with the id %d, want %s with its id", data, id, want)
	}
}

func TestWatchersGetChangesAndResume(t *testing.T) {
	s := open(t, api.Config{})
	node := s.token("node", token.Node, "default")
	first := s.call("POST", "/v1/rules", searchRule).wants(201).etag()
	w := s.mustWatch(node, "default", "")
	w.wants(first)
	second := s.call("PATCH", "/v1/rules/search", `{"priority":1}`).wants(200).etag()
	w.wants(second)
	// It is not notified of a token or another namespace.
	s.token("other", token.Viewer, "*")
	s.call("PUT", "/v1/rules/x?namespace=blog", `{"id":"x","limits":["1/s"]}`).wants(201)
	third := s.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201).etag()
	w.wants(third)
	w.close()

	s.mustWatch(node, "default", strconv.FormatInt(first, 10)).wants(third)
	up := s.mustWatch(node, "default", strconv.FormatInt(third, 10))
	fourth := s.call("DELETE", "/v1/rules/search", "").wants(200)
	var made struct{ Revision int64 }
	fourth.into(&made)
	up.wants(made.Revision)
	// A watcher with a later revision than the database's, which was restored, gets the current one.
	s.mustWatch(node, "default", "99999").wants(made.Revision)
	s.as(node, "GET", "/v1/watch", "", "Last-Event-ID", "x").wants(400)
}

func TestWatchersAreBounded(t *testing.T) {
	s := open(t, api.Config{MaxWatchers: 2})
	one := s.mustWatch(s.admin, "default", "")
	s.mustWatch(s.admin, "default", "")
	if got := s.call("GET", "/v1/watch", ""); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("one more: got %d, want 503 with Retry-After", got.status)
	}
	one.close()
	await.True(t, "a place is free", func() bool { return s.server.Watchers() < 2 })
	s.mustWatch(s.admin, "default", "")
}

func TestWatchesEndWithTheServer(t *testing.T) {
	s := open(t, api.Config{})
	w := s.mustWatch(s.admin, "default", "")
	if _, _, err := w.next(); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.next(); err == nil {
		t.Error("the stream goes on")
	}
	s.call("GET", "/v1/rules", "").wants(http.StatusServiceUnavailable)
}

// snapshotOf fetches a snapshot and reads it.
func (s *service) snapshotOf(token, query string, headers ...string) (control.Header, map[string]*control.Item, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"/v1/snapshot?"+query, http.NoBody)
	if err != nil {
		return control.Header{}, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := s.client.Do(r)
	if err != nil {
		return control.Header{}, nil, err
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != 200 {
		return control.Header{}, nil, fmt.Errorf("snapshot: got %d", got.StatusCode)
	}
	var body io.Reader = got.Body
	if got.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(body); err != nil {
			return control.Header{}, nil, err
		}
	}
	read, err := control.NewReader(body)
	if err != nil {
		return control.Header{}, nil, err
	}
	if want := `"` + read.Header.Mark().String() + `"`; got.Header.Get("ETag") != want {
		return control.Header{}, nil, fmt.Errorf("ETag: got %s, want %s", got.Header.Get("ETag"), want)
	}
	items := map[string]*control.Item{}
	for {
		i, err := read.Next()
		if errors.Is(err, io.EOF) {
			return read.Header, items, nil
		} else if err != nil {
			return control.Header{}, nil, err
		}
		items[string(i.Kind)+" "+i.ID] = i
	}
}

func TestSnapshotsOfAllAndOfChanges(t *testing.T) {
	s := open(t, api.Config{})
	node := s.token("node", token.Node, "default")
	h, items, err := s.snapshotOf(node, "")
	if err != nil || h.Revision != 0 || len(items) != 0 {
		t.Fatalf("of nothing: got %+v with %d items, %v", h, len(items), err)
	}
	s.call("POST", "/v1/rules", searchRule).wants(201)
	first := s.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201).etag()
	for _, encoding := range []string{"gzip", "identity", "gzip;q=0"} {
		h, items, err := s.snapshotOf(node, "", "Accept-Encoding", encoding)
		if err != nil || h.Revision != first || h.Since != 0 || h.Time.IsZero() || len(items) != 2 || string(items["rule search"].Body) != searchRule {
			t.Errorf("%s: got %+v with %d items, %v, want all at %d", encoding, h, len(items), err, first)
		}
	}
	tag := s.as(node, "GET", "/v1/snapshot", "").wants(200).header.Get("ETag")
	s.as(node, "GET", "/v1/snapshot", "", "If-None-Match", tag).wants(304)
	s.as(node, "GET", "/v1/snapshot", "", "If-None-Match", fmt.Sprintf(`"%d"`, first)).wants(200) // which may be of another past
	s.call("DELETE", "/v1/clients/acme", "").wants(200)
	s.call("PUT", "/v1/clients/b", `{"id":"b"}`).wants(201)
	s.as(node, "GET", "/v1/snapshot", "", "If-None-Match", tag).wants(200)
	if h, items, err := s.snapshotOf(node, "since="+strings.Trim(tag, `"`)); err != nil || h.Since != first || len(items) != 2 {
		t.Errorf("since %s: got %+v with %v, %v, want what has changed", tag, h, items, err)
	}
	if h, items, err := s.snapshotOf(node, fmt.Sprintf("since=%d-1", first)); err != nil || h.Since != 0 || len(items) != 2 {
		t.Errorf("since one of that number in another past: got %+v with %v, %v, want all", h, items, err)
	}
	h, items, err = s.snapshotOf(node, fmt.Sprintf("since=%d", first))
	if err != nil || h.Since != first || h.Time.IsZero() || len(items) != 2 || !items["client acme"].Deleted || items["client b"].Deleted {
		t.Errorf("since %d: got %+v with %v, %v, want one deleted and one made", first, h, items, err)
	}
	// If the changes are not known, all content is sent.
	if h, items, err := s.snapshotOf(node, "since=99999"); err != nil || h.Since != 0 || len(items) != 2 {
		t.Errorf("since a revision to come: got %+v with %d items, %v, want all", h, len(items), err)
	}
	if h, items, err := s.snapshotOf(node, fmt.Sprintf("since=%d", h.Revision)); err != nil || len(items) != 0 || h.Since != h.Revision {
		t.Errorf("since the present one: got %+v with %d items, %v, want none", h, len(items), err)
	}
	for _, wrong := range []string{"-1", "1-", "1-x", "x", "1-2-3"} {
		s.as(node, "GET", "/v1/snapshot?since="+wrong, "").wants(400)
	}
	s.as(node, "GET", "/v1/snapshot?namespace=blog", "").wants(403)
}

// slowDB counts snapshots, and can block during one.
type slowDB struct {
	control.DB
	made   atomic.Int64
	during atomic.Pointer[func()]
}

func (d *slowDB) Snapshot(ctx context.Context, namespace string, each func(*control.Object) error) (int64, error) {
	d.made.Add(1)
	if f := d.during.Load(); f != nil {
		(*f)()
	}
	return d.DB.Snapshot(ctx, namespace, each)
}

func TestSnapshotChangedDuringEncodingHasTheRightHeader(t *testing.T) {
	db := &slowDB{DB: openDB(t)}
	s := open(t, api.Config{DB: db})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	var later int64
	change := func() {
		db.during.Store(nil)
		later = s.call("PUT", "/v1/rules/x", `{"id":"x","limits":["1/s"]}`).wants(201).etag()
	}
	db.during.Store(&change)
	h, items, err := s.snapshotOf(s.admin, "")
	if err != nil || h.Revision != later || len(items) != 2 {
		t.Errorf("got %+v with %d items, %v, want 2 at %d", h, len(items), err, later)
	}
}

func TestWatchEndsWhenItsTokenIsRevoked(t *testing.T) {
	s := open(t, api.Config{})
	s.server.SetKeepAlive(10 * time.Millisecond)
	node := s.token("node", token.Node, "default")
	w := s.mustWatch(node, "default", "")
	if _, _, err := w.next(); err != nil {
		t.Fatal(err)
	}
	// Comments show that the stream is alive.
	if line, err := w.lines.ReadString('\n'); err != nil || line != ": alive\n" {
		t.Errorf("got %q, %v, want a comment", line, err)
	}
	s.call("DELETE", "/v1/tokens/node", "").wants(200)
	if data, _, err := w.next(); err == nil {
		t.Errorf("got %s, want the stream to end", data)
	}
}
