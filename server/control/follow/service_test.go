package follow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/bars"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/logins"
)

const adminToken = "a-token-for-the-tests-of-nodes"

// A service is a rules service on a port of this host.
type service struct {
	db    control.DB
	url   string
	admin *remote.Client
	node  string       // a token of the role node
	moved atomic.Int64 // bytes sent to all nodes
	mute  atomic.Bool  // refuses watches
	cut   func()       // ends all connections
}

// startService starts a service with a database.
func startService(t testing.TB, db control.DB) *service {
	t.Helper()
	throttle, err := logins.New(logins.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(api.Config{DB: db, Logins: throttle, AdminToken: adminToken, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{db: db}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.mute.Load() && r.URL.Path == "/v1/watch" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		server.ServeHTTP(w, r)
	}))
	h.Listener = &countingListener{h.Listener, &s.moved}
	h.Start()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		h.CloseClientConnections()
		h.Close()
		if err := throttle.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url, s.cut = h.URL, h.CloseClientConnections
	s.admin = s.client(t, adminToken)
	var made struct{ Secret string }
	token := map[string]any{"id": "nodes", "role": "node", "namespaces": []string{"*"}}
	if err := s.admin.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, token, &made); err != nil {
		t.Fatal(err)
	}
	s.node = made.Secret
	return s
}

func (s *service) client(t testing.TB, token string) *remote.Client {
	t.Helper()
	c, err := remote.New(remote.Config{URL: s.url, Token: token, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// put writes an object.
func (s *service) put(t testing.TB, of remote.Collection, id, body string) int64 {
	t.Helper()
	revision, err := s.admin.Put(t.Context(), of, id, []byte(body), control.AnyRevision)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// start starts a node of the service.
func (s *service) start(t testing.TB, c follow.Config) *node {
	t.Helper()
	c.Source = follow.Remote(s.client(t, s.node))
	n := open(t, c)
	n.run(t)
	return n
}

// A countingListener counts the bytes that its connections send.
type countingListener struct {
	net.Listener
	sent *atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{c, l.sent}, nil
}

type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func TestNodeFollowsARemoteService(t *testing.T) {
	t.Parallel()
	s := startService(t, openDB(t))
	s.put(t, remote.Rules, "per-user", perUser)
	n := s.start(t, follow.Config{
		Dir: t.TempDir(), Poll: time.Hour,
		Node: func() control.Node { return control.Node{ID: "n1", Version: "v1", Store: "ok", Started: time.Now()} },
	})
	if got := n.limit("x"); got != 10 {
		t.Errorf("at the start: got %d, want 10", got)
	}
	s.put(t, remote.Rules, "per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`)
	until(t, "a rule", func() bool { return n.limit("x") == 20 })
	s.put(t, remote.Clients, "acme", `{"id":"acme","limits":["50/s"]}`)
	until(t, "a client", func() bool { return n.limit("acme") == 50 })
	revision := s.put(t, remote.Overrides, "o", `{"id":"o","client":{"user":"acme"},"limits":["500/s"],"for":"1h"}`)
	until(t, "an override", func() bool { return n.limit("acme") == 500 })
	if err := s.admin.Delete(t.Context(), remote.Overrides, "o", revision); err != nil {
		t.Fatal(err)
	}
	until(t, "no override", func() bool { return n.limit("acme") == 50 })
	if err := s.admin.Delete(t.Context(), remote.Clients, "acme", control.AnyRevision); err != nil {
		t.Fatal(err)
	}
	until(t, "no client", func() bool { return n.limit("acme") == 20 })
	if got := n.Status(); got.Snapshots != 1 || got.Deltas != 5 || !got.Push || got.Lag <= 0 {
		t.Errorf("got %+v", got)
	}
	until(t, "the service knows", func() bool {
		nodes, err := s.admin.Nodes(context.Background())
		return err == nil && len(nodes) == 1 && nodes[0].ID == "n1" && nodes[0].Revision == n.Status().Revision && !nodes[0].Behind
	})
}

// The status shows that a broken stream works again, even if nothing has changed.
func TestPushResumes(t *testing.T) {
	t.Parallel()
	s := startService(t, openDB(t))
	s.put(t, remote.Rules, "per-user", perUser)
	n := s.start(t, follow.Config{Poll: time.Hour})
	until(t, "the push", func() bool { return n.Status().Push })
	s.mute.Store(true)
	s.cut()
	until(t, "no push", func() bool { return !n.Status().Push && n.Status().PushError != "" })
	s.mute.Store(false)
	until(t, "the push again", func() bool { return n.Status().Push && n.Status().PushError == "" })
	s.put(t, remote.Rules, "per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`)
	until(t, "a change", func() bool { return n.limit("x") == 20 })
}

// figures are sorted durations.
type figures []time.Duration

func (f figures) at(part float64) time.Duration {
	slices.Sort(f)
	return f[min(len(f)-1, int(part*float64(len(f))))]
}

// spread measures the time from a write until it is in force on each of many nodes.
func spread(t testing.TB, s *service, nodes []*node, writes int) figures {
	t.Helper()
	var took figures
	for i := range writes {
		limit := int64(1000 + i)
		body, err := json.Marshal(map[string]any{"id": "per-user", "key": []string{"user"}, "limits": []string{fmt.Sprint(limit, "/s")}})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var group sync.WaitGroup
		times := make(figures, len(nodes))
		for j, n := range nodes {
			group.Go(func() {
				for n.limit("x") != limit && time.Since(began) < patience {
					time.Sleep(500 * time.Microsecond)
				}
				times[j] = time.Since(began)
			})
		}
		s.put(t, remote.Rules, "per-user", string(body))
		group.Wait()
		took = append(took, times...)
	}
	return took
}

// Nodes that poll once an hour get each change by the push. TestSoakChangeIsInForceOnFiftyNodes has the bars.
func TestChangeIsPushedToFiftyNodes(t *testing.T) {
	t.Parallel()
	s := startService(t, openDB(t))
	s.put(t, remote.Rules, "per-user", perUser)
	count, writes := 50, 5
	if racing.Enabled {
		count = 10
	}
	nodes := make([]*node, count)
	for i := range nodes {
		nodes[i] = s.start(t, follow.Config{Poll: time.Hour})
	}
	for _, n := range nodes {
		until(t, "the push", func() bool { return n.Status().Push })
	}
	took := spread(t, s, nodes, writes)
	t.Logf("%d nodes, %d writes: in force after %s (median), %s (99 of 100)", count, writes, took.at(0.5), took.at(0.99))
}

// Without push, polling finds a change: within 15 s if nodes poll every 10 s, plus or minus a fifth.
func TestPollingFindsAChangeWithoutPush(t *testing.T) {
	t.Parallel()
	s := startService(t, openDB(t))
	s.mute.Store(true)
	s.put(t, remote.Rules, "per-user", perUser)
	nodes := make([]*node, 5)
	for i := range nodes {
		nodes[i] = s.start(t, follow.Config{Poll: 500 * time.Millisecond})
	}
	took := spread(t, s, nodes, 1)
	t.Logf("asked for every 500 ms: in force after %s at most", took.at(1))
	for _, n := range nodes {
		if got := n.Status(); got.Push || got.PushError == "" {
			t.Errorf("got %+v", got)
		}
	}
}

// Five hundred nodes lose the service and reconnect at once.
func TestSoakFiveHundredNodesReconnectAtOnce(t *testing.T) {
	soak(t)
	db := openDB(t)
	s := startService(t, db)
	s.put(t, remote.Rules, "per-user", perUser)
	began := time.Now()
	nodes := make([]*node, 500)
	var group sync.WaitGroup
	for i := range nodes {
		group.Go(func() { nodes[i] = s.start(t, follow.Config{Poll: 10 * time.Second}) })
	}
	group.Wait()
	for _, n := range nodes {
		until(t, "the push", func() bool { return n.Status().Push && n.limit("x") == 10 })
	}
	t.Logf("500 nodes at the right revision, with the push, after %s", time.Since(began))
	s.mute.Store(true)
	s.cut()
	for _, n := range nodes {
		until(t, "no push", func() bool { return !n.Status().Push })
	}
	s.put(t, remote.Rules, "per-user", `{"id":"per-user","key":["user"],"limits":["20/s"]}`)
	s.mute.Store(false)
	began = time.Now()
	for _, n := range nodes {
		until(t, "the new revision", func() bool { return n.limit("x") == 20 && n.Status().Push })
	}
	back := time.Since(began)
	bars.Hold(t, "500 nodes whose streams were cut", "all at the right revision, with a stream, in ≤ 10 s", round(back).String(), back <= 10*time.Second)
	took := spread(t, s, nodes, 10)
	t.Logf("500 nodes, 10 writes: in force after %s (median), %s (99 of 100)", took.at(0.5), took.at(0.99))
}

// The bars of a write, on an idle machine.
func TestSoakChangeIsInForceOnFiftyNodes(t *testing.T) {
	soak(t)
	s := startService(t, openDB(t))
	s.put(t, remote.Rules, "per-user", perUser)
	nodes := make([]*node, 50)
	for i := range nodes {
		nodes[i] = s.start(t, follow.Config{Dir: t.TempDir()})
	}
	for _, n := range nodes {
		until(t, "the push", func() bool { return n.Status().Push })
	}
	took := spread(t, s, nodes, 100)
	median, most := took.at(0.5), took.at(0.99)
	bars.Hold(t, "API write → the new limit in force on 50 nodes, 100 writes", "median ≤ 100 ms, p99 ≤ 1 s",
		fmt.Sprintf("median %s, p99 %s, %s at most", round(median), round(most), round(took.at(1))), median <= 100*time.Millisecond && most <= time.Second)
}

// fill registers many clients, by changes of the database itself.
func fill(t testing.TB, db control.DB, count int) {
	t.Helper()
	for from := 0; from < count; from += control.MaxOps {
		var ops []control.Op
		for i := from; i < min(count, from+control.MaxOps); i++ {
			id := fmt.Sprintf("client-%07d", i)
			ops = append(ops, client(id, fmt.Sprintf(`{"id":"%s","limits":["%d/s"]}`, id, 1+i%1000)))
		}
		commit(t, db, ops...)
	}
}

// A change of one client sends that client and no other.
func TestChangingOneClientTouchesNoOther(t *testing.T) {
	t.Parallel()
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	count := 5_000
	if racing.Enabled {
		count = 200
	}
	fill(t, db, count)
	oneOfMany(t, db, count)
}

// oneOfMany changes some of many clients, one after the other, and returns the longest time until each was in force on
// a node.
func oneOfMany(t *testing.T, db control.DB, count int) time.Duration {
	s := startService(t, db)
	began := time.Now()
	n := s.start(t, follow.Config{Dir: t.TempDir(), Poll: time.Hour})
	// The first fetch may take longer than Open waits.
	for end := time.Now().Add(10 * patience); n.Status().Clients != count; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("got %+v, want %d clients", n.Status(), count)
		}
	}
	t.Logf("%d clients: %d kB moved, in force after %s", count, s.moved.Load()>>10, time.Since(began))
	until(t, "the push", func() bool { return n.Status().Push })
	s.put(t, remote.Clients, "first", `{"id":"first"}`) // when the service has all of them ready
	until(t, "the first change", func() bool { return n.Status().Clients == count+1 })
	var took figures
	var moved int64
	const changes = 5
	for i := range changes {
		id := fmt.Sprintf("client-%07d", i*17)
		before := s.moved.Load()
		began := time.Now()
		s.put(t, remote.Clients, id, fmt.Sprintf(`{"id":"%s","limits":["%d/s"]}`, id, 5000+i))
		until(t, "one client", func() bool { return n.limit(id) == int64(5000+i) })
		took = append(took, time.Since(began))
		moved = max(moved, s.moved.Load()-before)
	}
	t.Logf("one of %d clients changed: in force after %s at most", count, took.at(1))
	bars.Hold(t, fmt.Sprintf("one of %d registered clients changed", count), "≤ 10 kB move to each node",
		fmt.Sprintf("%d bytes, the answer to the write included", moved), moved <= 10_000)
	if got := n.Status(); got.Snapshots != 1 || got.Deltas != changes+1 {
		t.Errorf("got %+v", got)
	}
	return took.at(1)
}

func TestSoakChangingOneOfAMillionClients(t *testing.T) {
	soak(t)
	db := openDB(t)
	commit(t, db, rule("per-user", perUser))
	const count = 1_000_000
	fill(t, db, count)
	took := oneOfMany(t, db, count)
	bars.Hold(t, fmt.Sprintf("one of %d registered clients changed", count), "in force in ≤ 1 s", round(took).String(), took <= time.Second)
}
