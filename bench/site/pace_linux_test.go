package site

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// A pause holds everybody up once, from the nth request on.
type pause struct {
	mu     sync.Mutex
	after  int
	length time.Duration
}

func (p *pause) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.after--; p.after == 0 {
		time.Sleep(p.length)
	}
	w.WriteHeader(http.StatusOK)
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// A pause of 400 ms delays all requests that are due in it, whether they could be sent or not. A load generator that
// times requests from when they were sent would see one slow request for every connection.
func TestAPauseShowsInAllRequestsThatWereDueInIt(t *testing.T) {
	const rate, connections, length = 500, 4, 400 * time.Millisecond
	measured, err := runPace(PaceOrder{
		Addresses: []string{serve(t, &pause{after: 200, length: length})}, Connections: connections, Rate: rate, Windows: 1,
		Warming: 100 * time.Millisecond, Length: time.Second, Patience: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := measured.Windows[0][0]
	if got.Requests != rate {
		t.Errorf("got %d requests, want %d", got.Requests, rate)
	}
	// Two in five requests wait, for times spread evenly from nothing to the whole pause.
	if got.P99 < int64(length*8/10) || got.Max < int64(length) {
		t.Errorf("p99 is %v and the maximum %v, want nearly all and all of the pause of %v", time.Duration(got.P99), time.Duration(got.Max), length)
	}
	if got.Late >= int64(length) {
		t.Errorf("requests were sent %v late, p99, though they waited for the server and not for the load generator", time.Duration(got.Late))
	}
	if got.P50 > int64(length) {
		t.Errorf("p50 is %v though most requests were not delayed", time.Duration(got.P50))
	}
}

// Everybody gets as many windows, and each records as many requests.
func TestThoseWhoArePacedTakeTurns(t *testing.T) {
	cores, err := OwnCores()
	if err != nil {
		t.Fatal(err)
	}
	answers := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	got, err := runPace(PaceOrder{
		Addresses: []string{serve(t, answers), serve(t, answers)}, Connections: 2, Rate: 200, Windows: 3,
		Warming: 20 * time.Millisecond, Length: 50 * time.Millisecond, Patience: time.Minute, Cores: cores[:1],
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, windows := range got.Windows {
		if len(windows) != 3 {
			t.Errorf("the address at %d got %d windows, want 3", i, len(windows))
		}
		for _, w := range windows {
			if w.Requests != 10 || w.Calm.Requests > w.Requests || !got.Watched && w.Calm.Requests != w.Requests || w.Calm.P50 > w.Max {
				t.Errorf("got %+v, watched %t, want 10 requests, those that no stall touched among them", w, got.Watched)
			}
		}
	}
}

// Requests of a flood on one of two addresses are counted there, and their responses are not timed.
func TestAFloodIsCountedAndNotTimed(t *testing.T) {
	var floods, others atomic.Int64
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != "noisy-client" {
			others.Add(1)
			w.WriteHeader(http.StatusOK)
		} else if floods.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusOK)
		} else {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	for _, spins := range []bool{false, true} {
		floods.Store(0)
		others.Store(0)
		address := serve(t, answers)
		got, err := runPace(PaceOrder{
			Addresses: []string{address, address}, Connections: 2, Clients: 3, Rate: 200, Windows: 2, Floods: []float64{0, 1000},
			Length: 100 * time.Millisecond, Patience: time.Minute, Spins: spins,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []harness.Pacing{{Requests: 20}, {Requests: 20, Flooded: 100, Refused: 75}} {
			for _, w := range got.Windows[i] {
				if w.Requests != want.Requests || w.Flooded != want.Flooded || w.Refused != want.Refused {
					t.Errorf("address %d: %+v, want %d timed, %d of a flood and %d of that refused", i, w, want.Requests, want.Flooded, want.Refused)
				}
			}
		}
		if floods.Load() != 200 || others.Load() != 80 {
			t.Errorf("%d requests of the flood and %d others have come, want 200 and 80", floods.Load(), others.Load())
		}
	}
}

func TestPaceRefusesWhatItCannotMeasure(t *testing.T) {
	order := PaceOrder{Connections: 2, Rate: 100, Windows: 1, Length: 100 * time.Millisecond, Patience: time.Minute}
	for _, test := range []struct {
		name    string
		address string
		want    string
	}{
		{"an answer that is an error", serve(t, http.NotFoundHandler()), "404"},
		{"an answer of unknown length", serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
		})), "does not say how long it is"},
		{"an answer that is too long", serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "20000")
			_, _ = w.Write(make([]byte, 20_000))
		})), "is longer than"},
		{"a connection that breaks", serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })), "unexpected EOF"},
	} {
		o := order
		o.Addresses = []string{test.address}
		if got, err := runPace(o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", test.name, got, err, test.want)
		}
	}
	o := order
	o.Patience = 50 * time.Millisecond
	o.Addresses = []string{serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))}
	if got, err := runPace(o); err == nil || !strings.Contains(err.Error(), "had no answer") {
		t.Errorf("nobody answers: got %+v, %v; want an error that says so", got, err)
	}
}

// The upstream sends a load to a server that asks it in turn, here itself, and goes on answering.
func TestResponderSendsALoadAndAnswersMeanwhile(t *testing.T) {
	for _, spins := range []bool{false, true} {
		stdin, hold := io.Pipe()
		told, tell := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- RunResponder(stdin, json.NewEncoder(tell)) }()
		said := json.NewDecoder(told)
		var l Listening
		if err := said.Decode(&l); err != nil {
			t.Fatal(err)
		}
		order := PaceOrder{
			Addresses: []string{l.Address}, Connections: 2, Rate: 500, Windows: 2, Length: 40 * time.Millisecond, Patience: time.Minute,
			Spins: spins, Into: filepath.Join(t.TempDir(), "paced.json"),
		}
		go func() { _ = json.NewEncoder(hold).Encode(order) }()
		var done paceDone
		if err := said.Decode(&done); err != nil || done.Paced != order.Into {
			t.Fatalf("it says %+v, %v; want that %s is there", done, err, order.Into)
		}
		text, err := os.ReadFile(order.Into)
		var got paceResult
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		if err != nil || len(got.Windows) != 1 || len(got.Windows[0]) != 2 || got.Windows[0][1].Requests != 20 || got.Watched {
			t.Errorf("got %s, %v; want two windows of 20 requests, and no stalls watched for", text, err)
		}
		_ = hold.Close()
		if err := <-ended; err != nil {
			t.Errorf("when its input ends it says %v, want nothing", err)
		}
	}
}

func TestResponderAnswersRequestsHoweverTheyArrive(t *testing.T) {
	stdin, hold := io.Pipe()
	told, tell := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- RunResponder(stdin, json.NewEncoder(tell)) }()
	var l Listening
	if err := json.NewDecoder(told).Decode(&l); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	request, answer := LoadRequests()[0], string(upstreamAnswer(UpstreamBody))
	for _, test := range []struct {
		name   string
		pieces []string
		want   int
	}{
		{"whole", []string{request}, 1},
		{"three at once", []string{request + request + request}, 3},
		{"in pieces", []string{request[:10], request[10:40], request[40:]}, 1},
		{"one and a half, then half", []string{request + request[:30], request[30:]}, 2},
	} {
		for _, piece := range test.pieces {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, test.want*len(answer))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != strings.Repeat(answer, test.want) {
			t.Fatalf("%s: got %q, %v; want the answer %d times", test.name, got, err, test.want)
		}
	}
	_ = hold.Close()
	if err := <-ended; err != nil {
		t.Errorf("when its input ends it says %v, want nothing", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its connections end with %v, want %v", err, io.EOF)
	}
}
