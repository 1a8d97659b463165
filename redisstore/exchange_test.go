package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

// A reader is one node of a board, and what it has heard.
type reader struct {
	testing.TB
	*Board
	ages []time.Duration
}

func newReader(t testing.TB, s *Store, author string, mark uint64) *reader {
	t.Helper()
	b, err := s.Board(BoardOptions{Author: author, Mark: mark})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{TB: t, Board: b}
}

// leave exchanges notes, given as key, note, key, note, and returns what it hears as author=note by key.
func (r *reader) leave(pairs ...string) (heard map[string][]string, missed []int, err error) {
	r.Helper()
	var keys, notes []string
	var keep []time.Duration
	for i := 0; i < len(pairs); i += 2 {
		keys, notes, keep = append(keys, noteKeyOf(pairs[i])), append(notes, pairs[i+1]), append(keep, time.Minute)
	}
	heard = make(map[string][]string)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	missed, err = r.Exchange(ctx, keys, notes, keep, make([]bool, len(keys)), func(key int, author, note string, age time.Duration) {
		heard[pairs[2*key]] = append(heard[pairs[2*key]], author+"="+note)
		r.ages = append(r.ages, age)
	})
	for _, list := range heard {
		slices.Sort(list)
	}
	return heard, missed, err
}

// mustLeave is leave, and what it must hear.
func (r *reader) mustLeave(want map[string][]string, pairs ...string) {
	r.Helper()
	heard, missed, err := r.leave(pairs...)
	if err != nil || len(missed) > 0 {
		r.Fatalf("exchange: missed %v, %v", missed, err)
	}
	if !maps.EqualFunc(heard, want, slices.Equal) {
		r.Errorf("heard: got %v, want %v", heard, want)
	}
}

// noteKeyOf makes a key of 16 bytes of a name.
func noteKeyOf(name string) string { return (strings.Repeat(name, 16))[:16] }

type heard = map[string][]string

func onBothKinds(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret}))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, open(t, redistest.Cluster(t, redistest.ClusterOptions{}).URL(), Options{Secret: testSecret}))
	})
}

func TestBoardNotesReachTheOthersOnce(t *testing.T) {
	t.Parallel()
	onBothKinds(t, func(t *testing.T, s *Store) {
		a, b, c := newReader(t, s, "a", 1), newReader(t, s, "b", 1), newReader(t, s, "c", 1)
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

func TestBoardWithoutKeysFindsOutWhetherTheServerAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	a, b, other := newReader(t, s, "a", 1), newReader(t, s, "b", 1), newReader(t, s, "o", 2)
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
	var foreign *ForeignError
	if _, _, err := other.leave(); !errors.As(err, &foreign) {
		t.Errorf("with another mark: got %v, want a ForeignError", err)
	}
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Exchange(ctx, nil, nil, nil, nil, nil); err == nil {
		t.Error("when the server is gone: got no error")
	}
}

func TestBoardSpreadsManyKeysOverTheServers(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{})
	s := open(t, set.URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 1)
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

func TestBoardThatLostAllHearsAllAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 1)
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

func TestBoardForgetsNotesAndKeysNobodyRenews(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 1)
	a.mustLeave(heard{}, "x", "1")
	key := "hg:fleet{" + tagOf(int('x')%places) + "}"
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
	hear := func(_ int, author, _ string, _ time.Duration) { got = append(got, author) }
	deadline := time.Now().Add(30 * time.Second)
	for {
		got = nil
		if _, err := b.Exchange(ctx, []string{noteKeyOf("x")}, []string{"2"}, []time.Duration{50 * time.Millisecond}, []bool{false}, hear); err != nil {
			t.Fatal(err)
		}
		b.places[int('x')%places] = place{} // hear all
		fields, err := server.Do("HLEN", key+nameOf("x"))
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
func TestBoardNotesThatAreNoneAreHeardOnceAsSuch(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 1)
	a.mustLeave(heard{}, "x", "1")
	for _, garbage := range []string{"", "g", strings.Repeat("g", 2*noteNumber-1)} {
		if _, err := server.Do("HSET", "hg:fleet{"+tagOf(int('x')%places)+"}"+nameOf("x"), "who", garbage); err != nil {
			t.Fatal(err)
		}
		a.mustLeave(heard{"x": {"who="}}, "x", "2")
		b.mustLeave(heard{"x": {"a=2"}}, "x", "")
	}
}

// nameOf returns the last part of a key in Redis.
func nameOf(name string) string {
	b := &Board{store: &Store{}}
	e, err := b.errands([]string{noteKeyOf(name)}, []string{""}, []time.Duration{0}, []bool{false})
	if err != nil {
		panic(err)
	}
	return strings.TrimPrefix(e[0].keys[1], e[0].keys[0])
}

func TestBoardTellsThatAnotherFleetHasTheSameName(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	a, b := newReader(t, s, "a", 1), newReader(t, s, "b", 2)
	a.mustLeave(heard{}, "x", "1")
	_, missed, err := b.leave("x", "2")
	var foreign *ForeignError
	if !errors.As(err, &foreign) || foreign.Name != "fleet" || !foreign.Foreign() || len(missed) != 0 {
		t.Errorf("another fleet: missed %v, %v, want a ForeignError and none", missed, err)
	}
	apart, err := s.Board(BoardOptions{Name: "other", Author: "b", Mark: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&reader{TB: t, Board: apart}).leave("x", "2"); err != nil {
		t.Errorf("under a name of its own: %v", err)
	}
}

func TestBoardMissesOnlyKeysOfTheServerThatIsAway(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	s := open(t, set.URL(), Options{Secret: testSecret, HangTimeout: time.Second})
	a := newReader(t, s, "a", 1)
	var keys, pairs []string
	for i := range 64 {
		keys = append(keys, fmt.Sprintf("%c key", byte(i)))
		pairs = append(pairs, keys[i], "note")
	}
	a.mustLeave(heard{}, pairs...)
	errands, err := a.errands([]string{noteKeyOf(keys[0])}, []string{""}, []time.Duration{0}, []bool{false})
	if err != nil {
		t.Fatal(err)
	}
	dead := set.PrimaryOf(errands[0].keys[0])
	dead.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var notes []string
	var keep []time.Duration
	var named []string
	for _, key := range keys {
		named, notes, keep = append(named, noteKeyOf(key)), append(notes, "again"), append(keep, time.Minute)
	}
	missed, err := a.Exchange(ctx, named, notes, keep, make([]bool, len(named)), func(int, string, string, time.Duration) {})
	if err == nil || len(missed) == 0 || len(missed) > 50 || !slices.Contains(missed, 0) {
		t.Errorf("with one server of three away: missed %d of 64, %v, want a third and an error", len(missed), err)
	}
}

func TestBoardRefusesBadInput(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	for _, o := range []BoardOptions{{}, {Author: strings.Repeat("x", 200)}, {Author: "a", Name: "a{b}"}, {Author: "a", Name: strings.Repeat("x", 100)}} {
		if _, err := s.Board(o); err == nil {
			t.Errorf("Board(%+v): got no error", o)
		}
	}
	if _, err := s.MemberList("a b"); err == nil {
		t.Error("MemberList with a space: got no error")
	}
	b := newReader(t, s, "a", 1)
	if missed, err := b.Exchange(t.Context(), []string{"short"}, []string{""}, []time.Duration{0}, []bool{false}, nil); err == nil || len(missed) != 1 {
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
	secret := func(o Options) string {
		t.Helper()
		got, err := open(t, server.URL(), o).FleetSecret(t.Context())
		if err != nil || len(got) < minSecret {
			t.Fatalf("secret of %d bytes, %v", len(got), err)
		}
		return string(got)
	}
	one, two := secret(Options{}), secret(Options{})
	if one != two {
		t.Error("two stores that take theirs from Redis have different ones")
	}
	if secret(Options{Secret: testSecret}) == secret(Options{}) {
		t.Error("stores with different secrets have the same")
	}
}

func TestMemberListCountsLiveAndKnownNodes(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	r, err := s.MemberList("")
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
