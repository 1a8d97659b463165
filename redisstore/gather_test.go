package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

// grantAll requests 10 units of each key at once, of a limit of 100, and returns the decisions and errors.
func grantAll(t *testing.T, s *Store, keys []string) ([]headgate.Decision, []error) {
	t.Helper()
	decisions, errs := make([]headgate.Decision, len(keys)), make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			c := headgate.Check{Key: key, Limit: headgate.MustParseLimit("100/h"), Cost: 1}
			decisions[i], errs[i] = s.Grant(t.Context(), c, 10, 2)
		})
	}
	all.Wait()
	return decisions, errs
}

func TestGrantsOfManyKeysTravelTogether(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	server.ResetStats()
	var decisions []headgate.Decision
	for round := range int64(3) {
		var errs []error
		decisions, errs = grantAll(t, s, keys)
		for i, d := range decisions {
			if errs[i] != nil || d.Receipt.Units != 10 || d.Remaining != 90-10*round {
				t.Fatalf("round %d, %s: got %+v, %v, want 10 units and %d remaining", round, keys[i], d, errs[i], 90-10*round)
			}
		}
	}
	if calls := server.CommandStats()["evalsha"]; calls > 3*100 {
		t.Errorf("%d calls for 3000 grants, want at most 300", calls)
	}
	server.ResetStats()
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() {
			c := headgate.Check{Key: key, Limit: headgate.MustParseLimit("100/h"), Cost: 10}
			if err := s.Give(t.Context(), c, decisions[i].Receipt); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if calls := server.CommandStats()["evalsha"]; calls > 100 {
		t.Errorf("%d calls to give back 1000 grants, want at most 100", calls)
	}
	for _, key := range keys {
		d, err := s.Peek(t.Context(), headgate.Check{Key: key, Limit: headgate.MustParseLimit("100/h")})
		if err != nil || d.Remaining != 80 {
			t.Fatalf("%s: got %+v, %v, want 80 remaining", key, d, err)
		}
	}
}

func mustDo(t *testing.T, server *redistest.Server, args ...string) {
	t.Helper()
	if _, err := server.Do(args...); err != nil {
		t.Fatal(err)
	}
}

func TestForeignValueFailsOnlyItsOwnGrant(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	keys := []string{"a", "b", "text", "c", "list", "d"}
	if _, errs := grantAll(t, s, keys); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	limit := headgate.MustParseLimit("100/h")
	r, err := s.newRequest(s.keys.Load(), &headgate.Check{Key: "text", Limit: limit, Cost: 1}, unsplit)
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, server, "SET", r.key, "not a counter")
	if r, err = s.newRequest(s.keys.Load(), &headgate.Check{Key: "list", Limit: limit, Cost: 1}, unsplit); err != nil {
		t.Fatal(err)
	}
	mustDo(t, server, "DEL", r.key)
	mustDo(t, server, "RPUSH", r.key, "not a counter")
	for range 20 { // some of them together
		decisions, errs := grantAll(t, s, keys)
		for i, key := range keys {
			var e *ServerError
			switch foreign := key == "text" || key == "list"; {
			case foreign && (!errors.As(errs[i], &e) || !e.OneKey):
				t.Errorf("%s: got %+v, %v, want an error about this key", key, decisions[i], errs[i])
			case !foreign && errs[i] != nil:
				t.Errorf("%s: %v", key, errs[i])
			}
		}
	}
}

func TestGrantsEndWithTheStore(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	keys := make([]string, 50)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		_ = s.Close()
	}()
	grantAll(t, s, keys) // calls in progress end, with or without units
	<-closing
	if _, errs := grantAll(t, s, keys[:2]); !errors.Is(errs[0], headgate.ErrClosed) || !errors.Is(errs[1], headgate.ErrClosed) {
		t.Errorf("got %v, want %v", errs, headgate.ErrClosed)
	}
}

func FuzzSplitGathered(f *testing.F) {
	f.Add("", 1)
	f.Add("1234567\x01\x00\x02ab7654321", 1)
	f.Add("1234567\x01\x00\x02ab7654321\x03\x00\x007654321", 2)
	f.Fuzz(func(t *testing.T, reply string, keys int) {
		if keys < 1 || keys > maxGathered {
			return
		}
		replies, err := splitGathered(reply, keys)
		if err == nil && len(replies) != keys {
			t.Errorf("%d replies, want %d", len(replies), keys)
		}
	})
}
