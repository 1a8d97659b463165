package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/signature"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/control/webhook"
)

const hookSecret = "a secret that both sides know"

// A taker is a receiver of webhooks that can refuse some.
type taker struct {
	*httptest.Server
	refuse atomic.Int64 // how many more
	tried  atomic.Int64
	mu     sync.Mutex
	taken  []webhook.Event
	last   *http.Request // with its body in lastBody
	body   string
}

func newTaker(t testing.TB) *taker {
	t.Helper()
	k := &taker{}
	receiver, err := webhook.NewReceiver([]byte(hookSecret), func(_ context.Context, h webhook.Event) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.taken = append(k.taken, h)
	})
	if err != nil {
		t.Fatal(err)
	}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.tried.Add(1)
		if k.refuse.Add(-1) >= 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		text, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		k.mu.Lock()
		k.last, k.body = r, string(text)
		k.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(text)))
		receiver.ServeHTTP(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

// has reports whether a revision was accepted.
func (k *taker) has(revision int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.taken {
		if h.Revision == revision {
			return true
		}
	}
	return false
}

func (s *service) hook(id, url string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]string{"id": id, "url": url, "secret": hookSecret})
	if err != nil {
		s.t.Fatal(err)
	}
	s.call("POST", "/v1/webhooks", string(body)).wants(201, `"secret":"`+hookSecret)
}

// deliveries returns those of a webhook.
func (s *service) deliveries(id string) []struct {
	Revision int64
	State    string
	Attempts int
	Status   int
	Error    string
} {
	s.t.Helper()
	var got struct {
		Deliveries []struct {
			Revision int64
			State    string
			Attempts int
			Status   int
			Error    string
		}
	}
	s.call("GET", "/v1/webhooks/"+id+"/deliveries", "").wants(200).into(&got)
	return got.Deliveries
}

func TestWebhookIsRetriedUntilAccepted(t *testing.T) {
	s := open(t, api.Config{Hooks: loopback})
	k := newTaker(t)
	k.refuse.Store(2)
	s.hook("hook", k.URL)
	revision := s.call("POST", "/v1/rules", searchRule).wants(201).etag()
	await.True(t, "the webhook is taken", func() bool { return k.has(revision) })
	await.True(t, "that is known", func() bool {
		d := s.deliveries("hook")
		return len(d) == 1 && d[0].State == "delivered" && d[0].Attempts == 3 && d[0].Status == 202 && d[0].Revision == revision
	})
	// Changes of tokens and of other namespaces are not sent.
	s.token("x", token.Viewer, "*")
	s.call("PUT", "/v1/rules/x?namespace=blog", `{"id":"x","limits":["1/s"]}`).wants(201)
	next := s.call("DELETE", "/v1/rules/search", "").wants(200)
	var made struct{ Revision int64 }
	next.into(&made)
	await.True(t, "the next is taken", func() bool { return k.has(made.Revision) })
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.taken) != 2 || k.taken[0].Namespace != "default" || k.taken[0].Event != "revision" || k.taken[0].Time.IsZero() {
		t.Errorf("taken: got %+v, want the two of this namespace", k.taken)
	}
	if got := k.last.Header.Get("Authorization"); got != "" {
		t.Errorf("Authorization: got %q, want none", got)
	}
	// The same once more is refused by who has taken it.
	again, err := http.NewRequestWithContext(t.Context(), "POST", k.URL, strings.NewReader(k.body))
	if err != nil {
		t.Fatal(err)
	}
	again.Header.Set(signature.Header, k.last.Header.Get(signature.Header))
	k.mu.Unlock()
	got, err := http.DefaultClient.Do(again)
	k.mu.Lock()
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.StatusCode != http.StatusConflict {
		t.Errorf("a replay: got %d, want 409", got.StatusCode)
	}
}

func TestDeadLetterCanBeRetried(t *testing.T) {
	s := open(t, api.Config{Hooks: loopback})
	k := newTaker(t)
	k.refuse.Store(1 << 40)
	s.hook("hook", k.URL)
	revision := s.call("POST", "/v1/rules", searchRule).wants(201).etag()
	await.True(t, "it is a dead letter", func() bool {
		d := s.deliveries("hook")
		return len(d) == 1 && d[0].State == "dead"
	})
	d := s.deliveries("hook")[0]
	if d.Attempts != loopback.Attempts || d.Status != 503 || !strings.Contains(d.Error, "503") {
		t.Errorf("the dead letter: got %+v, want %d attempts and a 503", d, loopback.Attempts)
	}
	if got := k.tried.Load(); got != int64(loopback.Attempts) {
		t.Errorf("attempts: got %d, want %d", got, loopback.Attempts)
	}
	k.refuse.Store(0)
	s.call("POST", "/v1/webhooks/hook/deliveries/99999:retry", "").wants(404)
	s.call("POST", "/v1/webhooks/none/deliveries/1:retry", "").wants(404)
	s.call("GET", "/v1/audit?kind=event", "").wants(200, `"audit":[]`)
	s.call("POST", fmt.Sprintf("/v1/webhooks/hook/deliveries/%d:retry?note=repaired", revision), "").wants(202, `"state":"pending"`)
	s.eventOf(s.admin, "", "webhooks.retry").wants(200, `"actor":"first-admin"`, `"note":"repaired"`, fmt.Sprintf(`{"delivery":%d,"webhook":"hook"}`, revision))
	await.True(t, "it is taken", func() bool { return k.has(revision) })
	await.True(t, "that is known", func() bool { return s.deliveries("hook")[0].State == "delivered" })
	s.call("DELETE", "/v1/webhooks/hook", "").wants(200)
	s.call("GET", "/v1/webhooks/hook/deliveries", "").wants(404)
	s.call("GET", "/v1/webhooks", "").wants(200, `"webhooks":[]`)
}

// What was to be sent to a webhook that is deleted is nothing to another that gets its id.
func TestRecreatedWebhookHasNoOldDeliveries(t *testing.T) {
	hooks := loopback
	hooks.Attempts, hooks.MaxBackoff, hooks.Backoff = 1000, time.Hour, time.Hour // it does not come to a second attempt
	s := open(t, api.Config{Hooks: hooks})
	k := newTaker(t)
	k.refuse.Store(1)
	s.hook("hook", k.URL)
	old := s.call("POST", "/v1/rules", searchRule).wants(201).etag()
	await.True(t, "the first attempt has failed", func() bool {
		d := s.deliveries("hook")
		return len(d) == 1 && d[0].Attempts == 1 && d[0].State == "pending"
	})
	s.call("DELETE", "/v1/webhooks/hook", "").wants(200)
	if states, err := s.db.States(t.Context(), "delivery/default/hook", 10); err != nil || len(states) != 0 {
		t.Errorf("got %d deliveries of a webhook that is gone, %v; want none", len(states), err)
	}
	// One that was left, by a server that ended just then.
	left := control.State{
		Bucket: "delivery/default/hook", ID: fmt.Sprintf("%019d", old), Expires: time.Now().Add(time.Hour),
		Body: fmt.Appendf(nil, `{"revision":%d,"webhook":"hook","namespace":"default","state":"pending","attempts":1}`, old),
	}
	if err := s.db.PutState(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	s.hook("hook", k.URL)
	if d := s.deliveries("hook"); len(d) != 0 {
		t.Errorf("a webhook that was just made has deliveries: got %+v", d)
	}
	s.call("POST", fmt.Sprintf("/v1/webhooks/hook/deliveries/%d:retry", old), "").wants(404)
	next := s.call("PATCH", "/v1/rules/search", `{"priority":1}`).wants(200).etag()
	await.True(t, "the next change is taken", func() bool { return k.has(next) })
	await.True(t, "that is known", func() bool {
		d := s.deliveries("hook")
		return len(d) == 1 && d[0].Revision == next && d[0].State == "delivered"
	})
	if k.has(old) {
		t.Error("a change from before the webhook was made was sent to it")
	}
}

func TestPendingDeliveriesSurviveARestart(t *testing.T) {
	db := openDB(t)
	hooks := loopback
	hooks.Attempts, hooks.MaxBackoff, hooks.Backoff = 1000, time.Hour, time.Hour // it does not come to a second attempt
	hooks.Timeout = 10 * time.Second
	first := open(t, api.Config{DB: db, Hooks: hooks, AdminToken: "a token of a file, long enough"})
	k := newTaker(t)
	k.refuse.Store(1)
	first.hook("hook", k.URL)
	revision := first.call("POST", "/v1/rules", searchRule).wants(201).etag()
	await.True(t, "the first attempt has failed", func() bool {
		d := first.deliveries("hook")
		return len(d) == 1 && d[0].Attempts == 1
	})
	if err := first.server.Close(); err != nil {
		t.Fatal(err)
	}
	// Two hours later, it is long due.
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	open(t, api.Config{DB: db, Hooks: hooks, AdminToken: "a token of a file, long enough", Now: later})
	await.True(t, "the next server has sent it", func() bool { return k.tried.Load() == 2 })
	_ = revision
}

func TestForbiddenWebhookAddresses(t *testing.T) {
	s := open(t, api.Config{})
	for _, url := range []string{
		"http://127.0.0.1/x", "http://localhost.:0x/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://10.1.2.3/", "http://169.254.169.254/latest/meta-data",
		"http://192.168.0.1/", "http://100.64.0.1/", "http://0.0.0.0/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://224.0.0.1/",
		"ftp://example.com/", "file:///etc/passwd", "http:///x", "example.com", "http://user:pw@example.com/", "http://example.com/#x", "http://example.com/" + strings.Repeat("x", 3000),
	} {
		if got := s.call("POST", "/v1/webhooks", fmt.Sprintf(`{"url":%q}`, url)); got.status != 422 || !strings.Contains(got.body, `"path":"url"`) {
			t.Errorf("%.60s: got %d %s, want 422 of url", url, got.status, got.body)
		}
	}
	s.call("POST", "/v1/webhooks", `{"url":"https://example.com/","secret":"short"}`).wants(422, `"path":"secret"`)
	s.call("POST", "/v1/webhooks", `{"url":"https://203.0.113.9/x"}`).wants(201)
}

// A name that leads to this host is refused when it is sent, and a redirect is not followed.
func TestWebhooksDoNotReachPrivateNetworks(t *testing.T) {
	hooks := webhook.Options{Attempts: 2, Backoff: time.Millisecond, MaxBackoff: time.Millisecond}
	s := open(t, api.Config{Hooks: hooks})
	k := newTaker(t)
	s.hook("named", strings.Replace(k.URL, "127.0.0.1", "localhost", 1))
	s.call("POST", "/v1/rules", searchRule).wants(201)
	await.True(t, "it is a dead letter", func() bool {
		d := s.deliveries("named")
		return len(d) == 1 && d[0].State == "dead"
	})
	if d := s.deliveries("named")[0]; !strings.HasPrefix(d.Error, "neither a public address") || strings.Contains(d.Error, "127.0.0.1") || k.tried.Load() != 0 {
		t.Errorf("a name of this host: got %+v and %d attempts, want it refused before a connection", d, k.tried.Load())
	}

	hooks.Networks = loopback.Networks
	s = open(t, api.Config{Hooks: hooks})
	redirects := httptest.NewServer(http.RedirectHandler(k.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirects.Close)
	s.hook("moved", redirects.URL)
	s.call("POST", "/v1/rules", searchRule).wants(201)
	await.True(t, "it is a dead letter", func() bool {
		d := s.deliveries("moved")
		return len(d) == 1 && d[0].State == "dead"
	})
	if d := s.deliveries("moved")[0]; d.Status != 307 || k.tried.Load() != 0 {
		t.Errorf("a redirect: got %+v and %d attempts, want it not followed", d, k.tried.Load())
	}
}

func TestReceiverNeedsALongSecret(t *testing.T) {
	if _, err := webhook.NewReceiver([]byte("short"), nil); err == nil {
		t.Error("a receiver with a short secret: got no error")
	}
}

func TestNodeReceivesWebhooks(t *testing.T) {
	var taken atomic.Int64
	receiver, err := webhook.NewReceiver([]byte(hookSecret), func(_ context.Context, h webhook.Event) { taken.Store(h.Revision) })
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, api.Config{Hook: receiver})
	const body = `{"event":"revision","namespace":"default","revision":42}`
	header := signature.Sign([]byte(hookSecret), []byte(body), time.Now())
	s.as("", "POST", "/v1/hooks/rules", body).wants(401)
	s.as("", "POST", "/v1/hooks/rules", body, signature.Header, header).wants(202)
	if got := taken.Load(); got != 42 {
		t.Errorf("taken: got %d, want 42", got)
	}
	s.as("", "POST", "/v1/hooks/rules", body, signature.Header, header).wants(409)
	s.as("", "POST", "/v1/hooks/rules", strings.Repeat("x", 100_000), signature.Header, header).wants(413)
	open(t, api.Config{}).as("", "POST", "/v1/hooks/rules", body, signature.Header, header).wants(404)
}

// A server that ends between a change and telling of it leaves nothing behind but the change.
func TestUnannouncedChangeIsDeliveredAfterARestart(t *testing.T) {
	db := openDB(t)
	hooks := loopback
	hooks.Timeout = time.Second
	const admin = "a token of a file, long enough"
	first := open(t, api.Config{DB: db, Hooks: hooks, AdminToken: admin})
	k := newTaker(t)
	first.hook("hook", k.URL)
	if err := first.server.Close(); err != nil {
		t.Fatal(err)
	}
	change := control.Change{
		Namespace: "default", Actor: "x", Base: control.AnyRevision,
		Ops: []control.Op{{Kind: control.KindRule, ID: "search", Base: control.Absent, Body: []byte(searchRule)}},
	}
	if err := db.Commit(t.Context(), &change); err != nil {
		t.Fatal(err)
	}
	later := newClock()
	later.add(time.Minute)
	open(t, api.Config{DB: db, Hooks: hooks, AdminToken: admin, Now: later.time})
	await.True(t, "it is told", func() bool { return k.has(change.Revision) })
}

// Errors of deliveries do not say how the network looks inside: no addresses, no name servers.
func TestErrorsOfWebhooksNameNoHosts(t *testing.T) {
	hooks := loopback
	hooks.Attempts = 1
	s := open(t, api.Config{Hooks: hooks})
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	for id, url := range map[string]string{"refused": closed.URL, "name": "http://no-such-host.invalid/", "tls": secure.URL} {
		s.hook(id, url)
	}
	s.call("POST", "/v1/rules", searchRule).wants(201)
	for id, want := range map[string]string{
		"refused": "it refused the connection", "name": "host name not found", "tls": "its certificate is not valid, or it does not speak TLS",
	} {
		await.Equal(t, id, func() string {
			if d := s.deliveries(id); len(d) == 1 && d[0].State == "dead" {
				return d[0].Error
			}
			return ""
		}, want)
	}
}
