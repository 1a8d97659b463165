package envoyrls_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func get(s *envoyrls.Server, path string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

func TestJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	token, err := service.NewToken("0123456789abcdef0123")
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return begin }
	config := envoyrls.Config{
		Path: dir, CountDenied: true, Now: now, Limits: envoyrls.Limits{Body: 1000}, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20, Now: now}),
	}
	open := newServer(t, config).Handler()
	config.Token = token
	closed := newServer(t, config).Handler()
	good := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`
	for _, c := range []struct {
		name, method, body string
		handler            http.Handler
		status             int
		want               string
	}{
		{"within", "POST", good, open, 200, `{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":1,"unit":"HOUR"},"durationUntilReset":"3600s"}]}`},
		{"over", "POST", good, open, 429, `{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"HOUR"},"durationUntilReset":"3600s"}]}`},
		{"no domain", "POST", `{"descriptors":[{}]}`, open, 400, "domain must not be empty"},
		{"no descriptors", "POST", `{"domain":"api"}`, open, 400, "descriptor list must not be empty"},
		{"no JSON", "POST", `{"domain":`, open, 400, "not a RateLimitRequest"},
		{"an unknown field", "POST", `{"domaine":"api"}`, open, 400, "domaine"},
		{"too large", "POST", `{"domain":"` + strings.Repeat("x", 1000) + `"}`, open, 413, "too large"},
		{"another method", "GET", "", open, 405, ""},
		{"no token", "POST", good, closed, 401, "token"},
	} {
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, httptest.NewRequest(c.method, "/json", strings.NewReader(c.body)))
		got := strings.ReplaceAll(w.Body.String(), " ", "")
		if w.Code != c.status || !strings.Contains(got, strings.ReplaceAll(c.want, " ", "")) {
			t.Errorf("%s: got %d %s\nwant %d %s", c.name, w.Code, w.Body, c.status, c.want)
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(good))
	r.Header.Set("Authorization", "bearer 0123456789abcdef0123")
	closed.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized {
		t.Errorf("with the token: got %d %s", w.Code, w.Body)
	}
}

// Not parallel: it measures allocations of the whole process.
// Callers of envoyproxy/ratelimit may send any Content-Type, and some cannot be changed.
func TestJSONIsReadWhateverItsContentType(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 100))
	h := newServer(t, envoyrls.Config{Path: dir, Store: newStore(t, memstore.Options{MaxBytes: 8 << 20})}).Handler()
	for _, kind := range []string{"", "application/json", "application/x-www-form-urlencoded", "text/plain", "application/octet-stream", "no type"} {
		r := httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(`{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("%q: got %d %s, want 200", kind, w.Code, w.Body)
		}
	}
}

func TestLargeJSONTakesLittleMemory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1))
	handler := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t)}).Handler()
	body := `{"domain":"api","descriptors":[` + strings.Repeat("{},", 340_000) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
	runtime.ReadMemStats(&after)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "at most 128 descriptors") {
		t.Errorf("got %d %s, want that it is too much", w.Code, w.Body)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 20<<20 {
		t.Errorf("%d bytes were allocated for %d, want at most twenty times as many", got, len(body))
	}
}

func TestStalledLargeJSONLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 1_000_000))
	handler := newServer(t, envoyrls.Config{Path: dir, Store: newSmallStore(t)}).Handler()
	post := func(body io.Reader) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", body))
		return w.Code
	}
	good := `{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`
	large := good + strings.Repeat(" ", 10_000)
	var group sync.WaitGroup
	var ends []*io.PipeWriter
	for range 64 {
		body, end := io.Pipe()
		ends = append(ends, end)
		group.Go(func() {
			for post(body) == http.StatusServiceUnavailable { // the other request may have used the room just then
				runtime.Gosched()
			}
		})
	}
	await.True(t, "there is no room for more", func() bool { return post(strings.NewReader(large)) == http.StatusServiceUnavailable })
	if got := post(strings.NewReader(good)); got != http.StatusOK {
		t.Errorf("a small one: got %d, want 200", got)
	}
	for _, end := range ends {
		_ = end.Close()
	}
	group.Wait()
	if got := post(strings.NewReader(large)); got != http.StatusOK {
		t.Errorf("a large one when there is room again: got %d, want 200", got)
	}
}
