package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/loadgen"
)

// Rules are reloaded again and again while requests come. No request fails, none is decided by half a set, and what was
// consumed stays: one client's requests are counted to the last.
func TestReloadsUnderLoadKeepRequestsAndCounters(t *testing.T) {
	const reloads, clients = 100, 4
	text := func(revision int) string {
		// The first rule counts and never changes. The others come, go and change places.
		s := "rules:\n  - { id: counted, key: [api_key], limits: [1000000/d fixed-window] }\n"
		for i := range 1 + revision%7 {
			s += fmt.Sprintf("  - { id: other-%d, key: [api_key], priority: %d, limits: [%d/s] }\n", i, revision%3, 1_000_000+revision)
		}
		return s
	}
	rules := rulesFile(t, text(0))
	p := serve(t, onFreePort("--rules", rules)...)
	var stop atomic.Bool
	var group sync.WaitGroup
	type result struct {
		sent, failed int
		last         string
	}
	results := make([]result, clients)
	for n := range clients {
		c := newClient(t, p.gateway, "X-API-Key", "client-"+strconv.Itoa(n))
		group.Go(func() {
			r := &results[n]
			for !stop.Load() {
				response, err := c.ask("/")
				r.sent++
				switch {
				case err != nil:
					r.failed, r.last = r.failed+1, err.Error()
				case response.StatusCode != 200:
					r.failed, r.last = r.failed+1, response.Status
				}
			}
		})
	}
	for i := 1; i <= reloads; i++ {
		writeFile(t, rules, text(i))
		p.signal(sighup) // rather than waiting until the file has settled
		await.NoError(t, "a reload", func() error {
			if got := len(p.logged("rules loaded")); got < i {
				return fmt.Errorf("got %d", got)
			}
			return nil
		})
	}
	stop.Store(true)
	group.Wait()
	sent := 0
	for n, r := range results {
		if r.failed > 0 {
			t.Errorf("client %d: %d of %d requests failed, the last with %s", n, r.failed, r.sent, r.last)
		}
		sent += r.sent
		c := newClient(t, p.gateway, "X-API-Key", "client-"+strconv.Itoa(n))
		response := c.must("/")
		want := fmt.Sprintf(`"counted";r=%d`, 1_000_000-r.sent-1)
		if got := response.Header.Get("RateLimit"); !containsItem(got, want) {
			t.Errorf("client %d has sent %d: got %s, want %s", n, r.sent+1, got, want)
		}
	}
	if got := p.metric(`headgate_decisions_total{mode="local",rule="counted",verdict="allow"}`); got != float64(sent+clients) {
		t.Errorf("got %v decisions counted, want %d", got, sent+clients)
	}
	if got := p.metric("headgate_rules_revision"); got < reloads {
		t.Errorf("got revision %v, want at least %d", got, reloads)
	}
	t.Logf("%d reloads, %d requests", reloads, sent)
}

func containsItem(list, item string) bool {
	return slices.ContainsFunc(splitList(list), func(s string) bool { return len(s) >= len(item) && s[:len(item)] == item })
}

// splitList splits a header that is a list, without quoted commas.
func splitList(list string) []string {
	var items []string
	begin := 0
	for i := range len(list) {
		if list[i] == ',' {
			items = append(items, list[begin:i])
			for begin = i + 1; begin < len(list) && list[begin] == ' '; begin++ {
			}
		}
	}
	return append(items, list[begin:])
}

// A service that serves four requests at a time, for a while each, as many do. Beyond that they queue.
func smallService(t *testing.T) *httptest.Server {
	places := make(chan struct{}, 4)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		places <- struct{}{}
		time.Sleep(serviceTime)
		<-places
	}))
	t.Cleanup(s.Close)
	return s
}

const (
	serviceTime = 8 * time.Millisecond // so that the service can serve 500 a second
	neighbours  = 20
	perSecond   = 10 // what each client may have
	floodFactor = 50
)

// A neighbourhood is one client who may flood, and 20 who behave.
type neighbourhood struct {
	t      *testing.T
	noisy  *client
	others []*client
}

func newNeighbourhood(t *testing.T, addr string) *neighbourhood {
	n := &neighbourhood{t: t, noisy: newClient(t, addr, "X-API-Key", "noisy")}
	for i := range neighbours {
		n.others = append(n.others, newClient(t, addr, "X-API-Key", fmt.Sprintf("neighbour-%d", i)))
	}
	return n
}

// A phase is what came of some time.
type phase struct {
	took             []time.Duration // the others' requests
	throttled        int             // of them
	noisyOK, noisyNo atomic.Int64
}

// run lets the noisy client send so many requests a second, and the others five a second each, one after the other.
func (n *neighbourhood) run(lasts time.Duration, noisyRate int, into *phase) {
	var group sync.WaitGroup
	var mu sync.Mutex
	end := time.Now().Add(lasts)
	pace := time.NewTicker(time.Second / time.Duration(noisyRate))
	defer pace.Stop()
	const senders = 32 // of the noisy client, so that slow answers do not slow it down
	turns := make(chan struct{})
	for range senders {
		group.Go(func() {
			for range turns {
				r, err := n.noisy.ask("/")
				switch {
				case err != nil:
					n.t.Error(err)
				case r.StatusCode == http.StatusTooManyRequests:
					into.noisyNo.Add(1)
				default:
					into.noisyOK.Add(1)
				}
			}
		})
	}
	group.Go(func() {
		defer close(turns)
		for time.Now().Before(end) {
			<-pace.C
			select {
			case turns <- struct{}{}:
			default: // all senders wait for answers
			}
		}
	})
	const each = 200 * time.Millisecond
	for i, c := range n.others {
		group.Go(func() {
			// Who was held up does not make up for it: neighbours behave.
			for at := time.Now().Add(each * time.Duration(i) / neighbours); at.Before(end); at = later(at.Add(each), time.Now()) {
				time.Sleep(time.Until(at))
				prefix := time.Now()
				r, err := c.ask("/")
				took := time.Since(prefix)
				mu.Lock()
				into.took = append(into.took, took)
				if err != nil {
					n.t.Error(err)
				} else if r.StatusCode != 200 {
					into.throttled++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func p99(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)*99/100]
}

// A server that accepts connections and never answers fails all requests.
func TestLoadOfASilentServerFails(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // connections wait in its queue
	for _, tt := range []struct {
		rate           string
		errors, unsent int64
	}{{"20", 20, 0}, {"100", 64, 36}, {"max", 64, 0}} {
		t.Run(tt.rate, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, "bench", "load", "--rate", tt.rate, "--duration", "1s", "--limit", "1/s",
				"--target", "http://"+silent.Addr().String()+"/", "-o", "json")
			var report struct{ Targets []loadgen.Report }
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Targets) != 1 {
				t.Fatalf("got %v\n%s%s", err, stdout, stderr)
			}
			if r := report.Targets[0]; code != cli.ExitDiffers || r.Errors != tt.errors || r.Unsent != tt.unsent {
				t.Errorf("got exit code %d, %d errors, %d not sent, want %d, %d, %d", code, r.Errors, r.Unsent, cli.ExitDiffers,
					tt.errors, tt.unsent)
			}
		})
	}
}

// limitedNeighbourhood returns clients of a gateway that limits each of them.
func limitedNeighbourhood(t *testing.T) *neighbourhood {
	t.Helper()
	upstream := smallService(t)
	rules := rulesFile(t, fmt.Sprintf("rules:\n  - { id: per-client, key: [api_key], limits: [%d/s burst %d] }\n", perSecond, perSecond))
	n := newNeighbourhood(t, serve(t, onFreePort("--upstream", upstream.URL, "--rules", rules)...).gateway)
	n.run(200*time.Millisecond, perSecond, new(phase)) // open the connections
	return n
}

// One client sends 50 times its limit. It is denied, and 20 other clients are not.
func TestNoisyClientIsDeniedAndOthersAreNot(t *testing.T) {
	n := limitedNeighbourhood(t)
	var flood phase
	n.run(time.Second, floodFactor*perSecond, &flood)
	if flood.throttled > 0 || len(flood.took) == 0 {
		t.Errorf("got %d of %d requests of the others denied, want none", flood.throttled, len(flood.took))
	}
	if flood.noisyNo.Load() == 0 {
		t.Errorf("got %d requests of the noisy client allowed and none denied", flood.noisyOK.Load())
	}
}

// maxSlowdown is the largest factor by which a flood may raise the p99 of other clients. Without limits it is about
// seven.
const maxSlowdown = 2.5

func needSoak(t *testing.T) {
	t.Helper()
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("it needs a quiet machine: set HEADGATE_SOAK=1")
	}
}

// The p99 of other clients with a flood is close to that without one. Quiet rounds and floods alternate, so that other
// work on the machine affects both.
func TestSoakNoisyClientDoesNotSlowOthers(t *testing.T) {
	needSoak(t)
	n := limitedNeighbourhood(t)
	const rounds, duration = 40, 250 * time.Millisecond
	var quiet, flood phase
	for range rounds {
		n.run(duration, perSecond, &quiet)
		n.run(duration, floodFactor*perSecond, &flood)
	}
	if got := flood.noisyNo.Load(); got < 4*flood.noisyOK.Load() {
		t.Errorf("got %d requests of the flood denied and %d allowed, want at least 4 times as many denied", got, flood.noisyOK.Load())
	}
	without, with := p99(quiet.took), p99(flood.took)
	if float64(with) > maxSlowdown*float64(without) {
		t.Errorf("p99 of the others: got %v with the flood and %v without, want at most %v times as much", with, without, maxSlowdown)
	}
}

// Without limits the flood slows the others down: the test above would notice it.
func TestSoakNoisyClientWithoutLimitsSlowsOthers(t *testing.T) {
	needSoak(t)
	upstream := smallService(t)
	n := newNeighbourhood(t, serve(t, onFreePort("--upstream", upstream.URL, "--rules", rulesFile(t, "rules: []\n"))...).gateway)
	var quiet, flood phase
	for range 5 {
		n.run(time.Second, perSecond, &quiet)
		n.run(time.Second, floodFactor*perSecond, &flood)
	}
	without, with := p99(quiet.took), p99(flood.took)
	if float64(with) < maxSlowdown*float64(without) {
		t.Errorf("p99 of the others: got %v with the flood and %v without, want at least %v times as much", with, without, maxSlowdown)
	}
}
