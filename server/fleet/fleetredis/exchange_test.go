package fleetredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
)

var testSecret = []byte("a secret that only tests know, 32")

const dialTimeout = 30 * time.Second

// open opens a store for a test.
func open(t testing.TB, url string, o redisstore.Options) *redisstore.Store {
	t.Helper()
	if o.Secret == nil {
		o.Secret = testSecret
	}
	o.DialTimeout, o.Logger = dialTimeout, slog.New(slog.DiscardHandler)
	s, err := redisstore.Open(t.Context(), url, o)
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openStandalone starts a server and opens a store there.
func openStandalone(t testing.TB) (*redistest.Server, *redisstore.Store) {
	t.Helper()
	server := redistest.Standalone(t, redistest.Options{})
	return server, open(t, server.URL(), redisstore.Options{})
}

// A node is one node of an exchange, and the ages of the notes it has received.
type node struct {
	testing.TB
	*Exchange
	ages []time.Duration
}

func newNode(t testing.TB, s *redisstore.Store, author string, secret int) *node {
	t.Helper()
	x, err := NewExchange(s, ExchangeOptions{Author: author, Secret: []byte{byte(secret)}})
	if err != nil {
		t.Fatal(err)
	}
	return &node{TB: t, Exchange: x}
}

// leave exchanges notes, given as key, note, key, note, and returns what it hears as author=note by key.
func (r *node) leave(pairs ...string) (heard map[string][]string, missed []int, err error) {
	r.Helper()
	var notes []fleet.Note
	for i := 0; i < len(pairs); i += 2 {
		notes = append(notes, fleet.Note{Key: keyOf(pairs[i]), Text: pairs[i+1], Keep: time.Minute})
	}
	heard = make(map[string][]string)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	missed, err = r.Exchange.Exchange(ctx, notes, func(i int, n fleet.PeerNote) {
		heard[pairs[2*i]] = append(heard[pairs[2*i]], n.Author+"="+n.Text)
		r.ages = append(r.ages, n.Age)
	})
	for _, list := range heard {
		slices.Sort(list)
	}
	return heard, missed, err
}

// mustLeave is leave, and what it must hear.
func (r *node) mustLeave(want map[string][]string, pairs ...string) {
	r.Helper()
	heard, missed, err := r.leave(pairs...)
	if err != nil || len(missed) > 0 {
		r.Fatalf("exchange: missed %v, %v", missed, err)
	}
	if !maps.EqualFunc(heard, want, slices.Equal) {
		r.Errorf("heard: got %v, want %v", heard, want)
	}
}

// keyOf makes a key of 16 bytes of a name.
func keyOf(name string) string { return (strings.Repeat(name, 16))[:16] }

type heard = map[string][]string

func onBothKinds(t *testing.T, test func(t *testing.T, s *redisstore.Store)) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, redistest.Standalone(t, redistest.Options{}).URL(), redisstore.Options{}))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, redistest.Cluster(t, redistest.ClusterOptions{}).URL(), redisstore.Options{}))
	})
}

func TestExchangeNotesReachTheOthersOnce(t *testing.T) {
	t.Parallel()
	onBothKinds(t, func(t *testing.T, s *redisstore.Store) {
		a, b, c := newNode(t, s, "a", 1), newNode(t, s, "b", 1), newNode(t, s, "c", 1)
		a.mustLeave(heard{}, "x", "1", "y", "2")
		b.mustLeave(heard{"x": {"a=1"}}, "x", "3")
		b.mustLeave(heard{}, "x", "3")                                    // nothing is new
		b.mustLeave(heard{"y": {"a=2"}}, "x", "3", "y", "")               // an empty note only asks
		a.mustLeave(heard{"x": {"b=3"}}, "x", "1", "y", "2")              // and left nothing
		a.mustLeave(heard{}, "x", "5", "y", "2")                          // a key that changed
		b.mustLeave(heard{"x": {"a=5"}, "y": {"a=2"}}, "x", "3", "y", "") // is heard, and so is one that was left again
		c.mustLeave(heard{"x": {"a=5", "b=3"}, "y": {"a=2"}}, "x", "", "y", "")
		a.mustLeave(heard{}, "y", "2")
		b.mustLeave(heard{}, "x", "3") // as a only left y, x has nothing new
		for i, age := range append(b.ages, c.ages...) {
			if age < 0 || age > time.Minute {
				t.Errorf("age %d: got %v, want next to nothing", i, age)
			}
		}
	})
}

func TestExchangeWithoutKeysChecksTheServer(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	size := func() int64 {
		t.Helper()
		n, err := server.Do("DBSIZE")
		if err != nil {
			t.Fatal(err)
		}
		return n.(int64)
	}
	before := size()
	a.mustLeave(heard{})
	if got := size(); got != before {
		t.Errorf("keys after an exchange without any: got %d, want %d as before", got, before)
	}
	first := string(make([]byte, 16)) // in the place that is asked
	b.mustLeave(heard{}, first, "1")
	a.mustLeave(heard{first: {"b=1"}}, first, "")
	a.mustLeave(heard{})
	a.mustLeave(heard{}, first, "") // it remembers what it has heard
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Exchange.Exchange(ctx, nil, nil); err == nil {
		t.Error("when the server is gone: got no error")
	}
}

func TestExchangeSpreadsManyKeysOverTheServers(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{})
	s := open(t, set.URL(), redisstore.Options{})
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	var pairs, asks []string
	want := heard{}
	for i := range 2000 {
		key := fmt.Sprintf("%c key %06d", byte(i), i)
		pairs, asks = append(pairs, key, fmt.Sprint(i)), append(asks, key, "")
		want[key] = []string{"a=" + fmt.Sprint(i)}
	}
	a.mustLeave(heard{}, pairs...)
	b.mustLeave(want, asks...)
	for _, server := range set.Servers() {
		if server.Info("replication")["role"] != "master" {
			continue
		}
		size, err := server.Do("DBSIZE")
		if err != nil || size.(int64) < 200 {
			t.Errorf("%v has %v of 2000 keys, %v, want a third, more or less", server, size, err)
		}
	}
}

func TestExchangeThatLostAllHearsAllAgain(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	for i := range 20 {
		a.mustLeave(heard{}, "x", fmt.Sprint(i))
	}
	b.mustLeave(heard{"x": {"a=19"}}, "x", "")
	if _, err := server.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	a.mustLeave(heard{}, "x", "20") // the version that b knows is far ahead
	b.mustLeave(heard{"x": {"a=20"}}, "x", "")
	if _, err := server.Do("SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	a.mustLeave(heard{}, "x", "21")
	b.mustLeave(heard{"x": {"a=21"}}, "x", "")
}

func TestExchangeForgetsNotesAndKeysNobodyRenews(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	a.mustLeave(heard{}, "x", "1")
	key := "hg:fleet" + groupTag(int('x')%fleet.KeyGroups)
	keys, err := server.Do("KEYS", "hg:fleet{*")
	if err != nil || len(keys.([]any)) != 2 {
		t.Fatalf("keys: got %v, %v, want 2", keys, err)
	}
	for _, k := range keys.([]any) {
		ttl, err := server.Do("PTTL", fmt.Sprint(k))
		if err != nil || ttl.(int64) < 1 || ttl.(int64) > time.Minute.Milliseconds() {
			t.Errorf("time to live of %v: got %v ms, %v, want up to a minute", k, ttl, err)
		}
		if !strings.HasPrefix(fmt.Sprint(k), key) {
			t.Errorf("key %v: want the tag of %v", k, key)
		}
	}
	// A note that is older than its key is kept for is dropped, though others keep the key.
	ctx := t.Context()
	var got []string
	hear := func(_ int, n fleet.PeerNote) { got = append(got, n.Author) }
	deadline := time.Now().Add(30 * time.Second)
	for {
		got = nil
		if _, err := b.Exchange.Exchange(ctx, []fleet.Note{{Key: keyOf("x"), Text: "2", Keep: 50 * time.Millisecond}}, hear); err != nil {
			t.Fatal(err)
		}
		b.groups[int('x')%fleet.KeyGroups] = groupState{} // hear all
		fields, err := server.Do("HLEN", key+keyName(keyOf("x")))
		if err != nil {
			t.Fatal(err)
		}
		if fields.(int64) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("fields: got %v, want only b's", fields)
		}
	}
}

// What somebody else has put there is heard of once, as a note that says nothing, and keeps nobody from hearing the
// others.
func TestExchangeNotesThatAreNoneAreHeardOnceAsSuch(t *testing.T) {
	t.Parallel()
	server, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 1)
	a.mustLeave(heard{}, "x", "1")
	for _, garbage := range []string{"", "g", strings.Repeat("g", 2*numberBytes-1)} {
		if _, err := server.Do("HSET", "hg:fleet"+groupTag(int('x')%fleet.KeyGroups)+keyName(keyOf("x")), "who", garbage); err != nil {
			t.Fatal(err)
		}
		a.mustLeave(heard{"x": {"who="}}, "x", "2")
		b.mustLeave(heard{"x": {"a=2"}}, "x", "")
	}
}

func TestExchangeTellsThatAnotherFleetHasTheSameName(t *testing.T) {
	t.Parallel()
	_, s := openStandalone(t)
	a, b := newNode(t, s, "a", 1), newNode(t, s, "b", 2)
	a.mustLeave(heard{}, "x", "1")
	_, missed, err := b.leave("x", "2")
	var foreign *fleet.ForeignError
	if !errors.As(err, &foreign) || foreign.Name != "fleet" || len(missed) != 0 {
		t.Errorf("another fleet: missed %v, %v, want a ForeignError and none", missed, err)
	}
	apart, err := NewExchange(s, ExchangeOptions{Name: "other", Author: "b", Secret: []byte{2}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&node{TB: t, Exchange: apart}).leave("x", "2"); err != nil {
		t.Errorf("under a name of its own: %v", err)
	}
}

func TestExchangeMissesOnlyKeysOfTheServerThatIsAway(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	s := open(t, set.URL(), redisstore.Options{HangTimeout: time.Second})
	a := newNode(t, s, "a", 1)
	var keys, pairs []string
	for i := range 64 {
		keys = append(keys, fmt.Sprintf("%c key", byte(i)))
		pairs = append(pairs, keys[i], "note")
	}
	a.mustLeave(heard{}, pairs...)
	dead := set.PrimaryOf(a.groupKeys[int(keys[0][0])%fleet.KeyGroups])
	dead.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // all of which the dead server takes
	defer cancel()
	var notes []fleet.Note
	for _, key := range keys {
		notes = append(notes, fleet.Note{Key: keyOf(key), Text: "again", Keep: time.Minute})
	}
	missed, err := a.Exchange.Exchange(ctx, notes, func(int, fleet.PeerNote) {})
	if err == nil || len(missed) == 0 || len(missed) > 50 || !slices.Contains(missed, 0) {
		t.Errorf("with one server of three away: missed %d of 64, %v, want a third and an error", len(missed), err)
	}
}

func TestExchangeRefusesBadInput(t *testing.T) {
	t.Parallel()
	_, s := openStandalone(t)
	for _, o := range []ExchangeOptions{{}, {Author: strings.Repeat("x", 200)}, {Author: "a", Name: "a{b}"}, {Author: "a", Name: strings.Repeat("x", 100)}} {
		if _, err := NewExchange(s, o); err == nil {
			t.Errorf("Exchange(%+v): got no error", o)
		}
	}
	if _, err := NewMemberList(s, "a b"); err == nil {
		t.Error("MemberList with a space: got no error")
	}
	b := newNode(t, s, "a", 1)
	if missed, err := b.Exchange.Exchange(t.Context(), []fleet.Note{{Key: "short"}}, nil); err == nil || len(missed) != 1 {
		t.Errorf("a short key: missed %v, %v, want 1 and an error", missed, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, missed, err := b.leave("x", "1"); !errors.Is(err, headgate.ErrClosed) || len(missed) != 1 {
		t.Errorf("when closed: missed %v, %v, want 1 and ErrClosed", missed, err)
	}
}

func TestFleetSecretIsTheSameForStoresThatShareTheirs(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	secret := func(o redisstore.Options) string {
		t.Helper()
		got, err := Secret(t.Context(), open(t, server.URL(), o))
		if err != nil || len(got) < 16 {
			t.Fatalf("secret of %d bytes, %v", len(got), err)
		}
		return string(got)
	}
	fromRedis := redisstore.Options{Secret: []byte{}}
	one, two := secret(fromRedis), secret(fromRedis)
	if one != two {
		t.Error("two stores that take theirs from Redis have different ones")
	}
	if secret(redisstore.Options{Secret: testSecret}) == secret(fromRedis) {
		t.Error("stores with different secrets have the same")
	}
}

func TestMemberListCountsLiveAndKnownNodes(t *testing.T) {
	t.Parallel()
	_, s := openStandalone(t)
	r, err := NewMemberList(s, "")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	beat := func(node string, within, known time.Duration) [2]int {
		t.Helper()
		live, all, was, err := r.Beat(t.Context(), node, within, known)
		if err != nil {
			t.Fatal(err)
		}
		if was != listed[node] {
			t.Errorf("%s was listed before: got %t, want %t", node, was, listed[node])
		}
		listed[node] = true
		return [2]int{live, all}
	}
	beat("a", time.Hour, time.Hour)
	beat("b", time.Hour, time.Hour)
	if got, want := beat("c", time.Hour, time.Hour), [2]int{3, 3}; got != want {
		t.Errorf("three nodes: got %v live and known, want %v", got, want)
	}
	deadline := time.Now().Add(30 * time.Second)
	for got := [2]int{}; got != [2]int{1, 3}; {
		if got = beat("c", time.Millisecond, time.Hour); time.Now().After(deadline) {
			t.Fatalf("one that speaks and two that don't: got %v, want 1 and 3", got)
		}
	}
	if err := r.Leave(t.Context(), "a", time.Hour, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, want := beat("c", time.Hour, time.Hour), [2]int{2, 2}; got != want {
		t.Errorf("after one left: got %v, want %v", got, want)
	}
	for got := [2]int{}; got != [2]int{1, 1}; {
		if got = beat("c", time.Millisecond, time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("one that speaks, and others that are forgotten: got %v, want 1 and 1", got)
		}
	}
}
