package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/bars"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/internal/logins"
)

// serveEnv makes this program a rules service instead of a test, to measure the memory of its process.
const serveEnv = "HEADGATE_TEST_SERVE_RULES"

const childToken = "a token for the child, long enough"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		if err := serveRules(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serveRules serves until its input ends.
func serveRules(dir string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "rules.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	throttle, err := logins.New(logins.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = throttle.Close() }()
	server, err := api.New(api.Config{DB: db, Logins: throttle, AdminToken: childToken, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// The deadlines of the admin listener.
	h := &http.Server{Handler: server, ReadHeaderTimeout: 30 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = h.Close()
	}()
	fmt.Println(l.Addr())
	_ = h.Serve(l)
	return nil
}

// startRules starts a rules service in another process, and returns both.
func startRules(t testing.TB) (*service, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), serveEnv+"="+t.TempDir())
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the service did not start: %v", err)
	}
	return &service{t: t, admin: childToken, url: "http://" + strings.TrimSpace(line), client: &http.Client{Transport: &http.Transport{}}}, c
}

// peak returns the maximum memory of a process in MB, 0 if it is unknown.
func peak(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
			if err != nil {
				return 0
			}
			return kb >> 10
		}
	}
	return 0
}

// After a restart of the service, all nodes watch and fetch everything at once. Half of them
// fetch without compression.
func TestFiveHundredNodesReconnectAtOnce(t *testing.T) {
	nodes, count := 500, 1000
	if racing.Enabled { // ten times slower
		nodes, count = 50, 50
	}
	s, process := startRules(t)
	var file strings.Builder
	file.WriteString(`{"rules":[`)
	for i := range count {
		if i > 0 {
			file.WriteByte(',')
		}
		fmt.Fprintf(&file, `{"id":"rule-%d","when":{"path":"/part/%d/**"},"key":["user"],"limits":["%d/s"],"description":"%s"}`, i, i, i+1, strings.Repeat("d", 100))
	}
	file.WriteString(`]}`)
	revision := s.call("POST", "/v1/rules:apply", file.String()).wants(200).etag()
	idle := peak(process.Process.Pid)
	began := time.Now()
	var group sync.WaitGroup
	watches := make([]*watching, nodes)
	for i := range nodes {
		group.Go(func() {
			w, err := s.watch(s.admin, "default", "")
			if err != nil {
				t.Errorf("node %d: %v", i, err)
				return
			}
			watches[i] = w
			if _, id, err := w.next(); err != nil || id != revision {
				t.Errorf("node %d: got revision %d, %v, want %d", i, id, err, revision)
				return
			}
			encoding := "gzip"
			if i%2 == 1 {
				encoding = "identity"
			}
			if err := s.fetch(revision, encoding); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	began = time.Now()
	// All are notified of the next change.
	next := s.call("PUT", "/v1/rules/x", `{"id":"x","limits":["1/s"]}`).wants(201).etag()
	for i, w := range watches {
		if w == nil {
			continue
		}
		if _, id, err := w.next(); err != nil || id != next {
			t.Errorf("node %d: got revision %d, %v, want %d", i, id, err, next)
		}
	}
	told := time.Since(began)
	for _, w := range watches {
		if w != nil {
			w.close()
		}
	}
	mb := peak(process.Process.Pid)
	if mb > 200 && !racing.Enabled {
		t.Errorf("memory of the service: got %d MB, want at most 200", mb)
	}
	if os.Getenv("HEADGATE_SOAK") != "" {
		bars.Hold(t, fmt.Sprintf("%d nodes that come back at once", nodes), "all at the right revision in ≤ 10 s, the service takes ≤ 200 MB",
			fmt.Sprintf("%s, %d MB", took.Round(time.Millisecond), mb), took <= 10*time.Second && mb <= 200)
	}
	t.Logf("%d nodes had revision %d after %v, and heard of the next in %v; the service took %d MB at most, %d before", nodes, revision, took, told, mb, idle)
}

// fetch fetches a snapshot, and checks only that it is complete.
func (s *service) fetch(revision int64, encoding string) error {
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.url+"/v1/snapshot", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.admin)
	r.Header.Set("Accept-Encoding", encoding)
	got, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	n, err := io.Copy(io.Discard, got.Body)
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"%d-`, revision); !strings.HasPrefix(got.Header.Get("ETag"), want) || n == 0 {
		return fmt.Errorf("snapshot: got %d bytes of %s, want revision %s", n, got.Header.Get("ETag"), want)
	}
	return nil
}
