package resp_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/service/resp"
)

// A throttleCase is a case of testdata/throttle.txt.
type throttleCase struct {
	name  string
	steps []throttleStep
}

type throttleStep struct {
	line    int
	at      time.Duration
	command string
	want    string
}

func readCases(t *testing.T) []throttleCase {
	t.Helper()
	text, err := os.ReadFile("testdata/throttle.txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []throttleCase
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "case "); ok {
			cases = append(cases, throttleCase{name: name})
			continue
		}
		if line == "" {
			continue
		}
		head, want, ok := strings.Cut(line, " -> ")
		fields := strings.Fields(head)
		if !ok || len(fields) < 3 || fields[0] != "at" || len(cases) == 0 {
			t.Fatalf("throttle.txt:%d: %q: want: at TIME COMMAND -> ANSWER, in a case", i+1, line)
		}
		at, before, _ := strings.Cut(fields[1], "-")
		step := throttleStep{line: i + 1, at: duration(t, at), want: want, command: strings.TrimSpace(strings.SplitN(head, fields[1], 2)[1])}
		if before != "" {
			step.at -= duration(t, before)
		}
		last := &cases[len(cases)-1]
		last.steps = append(last.steps, step)
	}
	return cases
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// replay sends the commands of all cases as lines, and compares the replies.
func replay(t *testing.T, start func(t *testing.T, clock *limittest.Clock) resp.Config) {
	cases := readCases(t)
	if len(cases) < 10 {
		t.Fatalf("%d cases, want those of throttle.txt", len(cases))
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			clock := limittest.NewClock()
			c := dial(t, serve(t, start(t, clock)).address)
			now := time.Duration(0)
			for _, step := range test.steps {
				clock.Advance(step.at - now)
				now = step.at
				c.send(step.command + "\r\n")
				if got := c.read(); got != step.want {
					t.Errorf("throttle.txt:%d: at %v %s: got %s, want %s", step.line, step.at, step.command, got, step.want)
				}
			}
		})
	}
}

func TestThrottleRepliesLikeRedisCell(t *testing.T) {
	t.Run("bound", func(t *testing.T) {
		replay(t, func(t *testing.T, clock *limittest.Clock) resp.Config {
			return onMemory(t, memstore.Options{Now: clock.Now})
		})
	})
	t.Run("not bound", func(t *testing.T) {
		replay(t, func(t *testing.T, clock *limittest.Clock) resp.Config {
			c := onMemory(t, memstore.Options{Now: clock.Now})
			c.Bind = nil
			return c
		})
	})
	t.Run("in Redis", func(t *testing.T) {
		server := redistest.Standalone(t, redistest.Options{})
		replay(t, func(t *testing.T, clock *limittest.Clock) resp.Config {
			if _, err := server.Do("FLUSHALL"); err != nil {
				t.Fatal(err)
			}
			store := openRedis(t, server, redisstore.Options{Now: clock.Now})
			return onRedis(t, store)
		})
	})
}

func openRedis(t testing.TB, server *redistest.Server, o redisstore.Options) *redisstore.Store {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	store, err := redisstore.Open(context.Background(), server.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func onRedis(t testing.TB, store headgate.Limiter) resp.Config {
	t.Helper()
	return resp.Config{
		Engine: newEngine(t, engine.Config{Store: store, Shared: true}), Store: store, Logger: slog.New(slog.DiscardHandler),
		Limits: resp.Limits{DecideTimeout: patience},
	}
}

func TestThrottleSharesNothingWithRules(t *testing.T) {
	c := dial(t, serve(t, onMemory(t, memstore.Options{})).address)
	for range 5 {
		c.do("HG.TAKE", "per-user", "alice")
	}
	c.wants("0 5 4 -1 720", "CL.THROTTLE", "/per-user/user/\x05alice1", "4", "5", "3600")
	c.wants("0 5 4 -1 720", "CL.THROTTLE", "alice", "4", "5", "3600")
	if got := c.do("HG.TAKE", "per-user", "alice"); !strings.HasPrefix(got, "0 5 0 ") {
		t.Errorf("alice has consumed her 5: got %s", got)
	}
}

func TestLongKeysAreDistinct(t *testing.T) {
	now := time.Now() // for as long as this takes
	c := dial(t, serve(t, onMemory(t, memstore.Options{Now: func() time.Time { return now }})).address)
	long := strings.Repeat("k", 5000)
	c.wants("0 1 0 -1 60", "CL.THROTTLE", long+"a", "0", "1", "60")
	c.wants("0 1 0 -1 60", "CL.THROTTLE", long+"b", "0", "1", "60")
	c.wants("1 1 0 60 60", "CL.THROTTLE", long+"a", "0", "1", "60")
}

// A brokenStore cannot decide.
type brokenStore struct{ *memstore.Store }

func (brokenStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrFull
}

func TestFailedStoreAllowsByDefault(t *testing.T) {
	for _, test := range []struct {
		policy headgate.Policy
		want   string
	}{{headgate.Open, "0 5 4 -1 0"}, {headgate.Closed, "1 5 0 1 0"}, {headgate.Local, "0 5 4 -1 0"}} {
		t.Run(test.policy.String(), func(t *testing.T) {
			config := onMemory(t, memstore.Options{})
			config.Bind, config.Store, config.OnFailure = nil, brokenStore{newStore(t, memstore.Options{})}, test.policy
			s := serve(t, config)
			dial(t, s.address).wants(test.want, "CL.THROTTLE", "a", "4", "1", "60")
			if got := s.Stats().StoreFailures; got != 1 {
				t.Errorf("got %d failures of the store, want 1", got)
			}
		})
	}
}
