package api_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/sqlite"
)

// Two editors increment the priority that they have read, each on its own server. If no change is lost, the priority
// is the number of accepted changes.
func TestTwoEditorsNeverLoseAnUpdate(t *testing.T) {
	db := openDB(t)
	var services []*service
	for range 2 {
		services = append(services, open(t, api.Config{DB: db, AdminToken: "a token of a file, long enough"}))
	}
	services[0].call("POST", "/v1/rules", searchRule).wants(201)
	rounds := 100
	if racing.Enabled {
		rounds = 25
	}
	var done [2]int
	var lost [2]int
	var group sync.WaitGroup
	for i, s := range services {
		group.Go(func() {
			for range rounds {
				for {
					got := s.call("GET", "/v1/rules/search", "")
					var read struct{ Rule struct{ Priority int } }
					got.into(&read)
					put := s.call("PATCH", "/v1/rules/search", fmt.Sprintf(`{"priority":%d,"description":"editor %d"}`, read.Rule.Priority+1, i), "If-Match", got.header.Get("ETag"))
					if put.status == http.StatusOK {
						done[i]++
						break
					}
					if put.status != http.StatusPreconditionFailed || !strings.Contains(put.body, `"diff":"`) || !strings.Contains(put.body, `"current":{"rule"`) {
						t.Errorf("who was slower: got %d %s, want 412 with the diff", put.status, put.body)
						return
					}
					lost[i]++
				}
			}
		})
	}
	group.Wait()
	var read struct{ Rule struct{ Priority int } }
	services[1].call("GET", "/v1/rules/search", "").into(&read)
	if want := done[0] + done[1]; read.Rule.Priority != want || want != 2*rounds {
		t.Errorf("priority: got %d after %d changes, want %d", read.Rule.Priority, want, 2*rounds)
	}
	t.Logf("%d changes, %d times somebody else was faster", done[0]+done[1], lost[0]+lost[1])
}

// A server checks conditions against changes of another server.
func TestChangesOfAnotherServerAreSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	var both []*service
	for range 2 {
		db, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		both = append(both, open(t, api.Config{DB: db, AdminToken: "a token of a file, long enough"}))
	}
	a, b := both[0], both[1]
	a.call("POST", "/v1/rules", searchRule).wants(201)
	b.call("PUT", "/v1/clients/acme", `{"id":"acme","rules":[{"id":"search","limits":["5/s"]}]}`).wants(201)
	a.call("DELETE", "/v1/rules/search", "").wants(422, `"path":"clients"`)
	a.call("PUT", "/v1/clients/other", `{"id":"other","attributes":{"user":"acme"}}`).wants(422)
	b.call("DELETE", "/v1/clients/acme", "").wants(200)
	a.call("PUT", "/v1/clients/other", `{"id":"other","attributes":{"user":"acme"}}`).wants(201)
	b.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(422)
	a.call("DELETE", "/v1/rules/search", "").wants(200)
}

// fullDB is a database whose disk can be full.
type fullDB struct {
	control.DB
	full atomic.Bool
}

func (f *fullDB) Commit(ctx context.Context, c *control.Change) error {
	if f.full.Load() {
		return fmt.Errorf("write: %w", control.ErrFull)
	}
	return f.DB.Commit(ctx, c)
}

func TestFullDiskRefusesWritesButNotReads(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	full := &fullDB{DB: db}
	s := open(t, api.Config{DB: full})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme"}`).wants(201)
	full.full.Store(true)
	for _, tt := range [][3]string{
		{"PATCH", "/v1/rules/search", `{"priority":1}`},
		{"DELETE", "/v1/rules/search", ""},
		{"PUT", "/v1/clients/b", `{"id":"b"}`},
		{"POST", "/v1/rules:apply", `{"rules":[]}`},
		{"POST", "/v1/tokens", `{"role":"viewer","namespaces":["*"]}`},
	} {
		path := tt[1]
		if strings.HasSuffix(path, ":apply") {
			path += "?prune"
		}
		s.call(tt[0], path, tt[2]).wants(http.StatusInsufficientStorage, "is full")
	}
	s.call("GET", "/v1/rules/search", "").wants(200)
	s.call("GET", "/v1/snapshot", "").wants(200, `"search"`)
	full.full.Store(false)
	// A failed write is not kept in memory.
	s.call("PUT", "/v1/clients/b", `{"id":"b"}`).wants(201)
	s.call("PATCH", "/v1/rules/search", `{"priority":1}`).wants(200)
}

func TestConcurrentWritersAllSucceed(t *testing.T) {
	s := open(t, api.Config{})
	var group sync.WaitGroup
	for i := range 6 {
		group.Go(func() {
			for j := range 5 {
				id := "r" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
				if got := s.call("PUT", "/v1/rules/"+id, `{"id":"`+id+`","limits":["1/s"]}`); got.status != 201 {
					t.Errorf("%s: got %d %s", id, got.status, got.body)
				}
			}
		})
	}
	group.Wait()
	s.call("GET", "/v1/rules", "").wants(200, `"total":30`)
}
