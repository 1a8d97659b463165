package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func check(key, limit string) headgate.Check {
	return headgate.Check{Key: key, Limit: headgate.MustParseLimit(limit), Cost: 1}
}

func TestKeysWithTheSameHashAreNotDenied(t *testing.T) {
	cache := NewDenyCache(1e6, nil)
	c := check("alice", "1/h")
	d := headgate.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
	const hash = 42 // of all keys
	cache.Learn(hash, &c, Response{Decision: &d})
	if _, ok := cache.Lookup(hash, &c, 1); !ok {
		t.Fatal("alice is not denied")
	}
	for _, key := range []string{"bob", "alicf", "alice2"} {
		other := c
		other.Key = key
		if d, ok := cache.Lookup(hash, &other, 1); ok {
			t.Errorf("%s: got %+v", key, d)
		}
		cache.Drop(hash, key)
	}
	if _, ok := cache.Lookup(hash, &c, 1); !ok {
		t.Error("alice is not denied any more, although nothing was done to that key")
	}
}

func TestDenialsAreBounded(t *testing.T) {
	cache := NewDenyCache(1e6, nil)
	deny := func(c headgate.Check, at int64) {
		d := headgate.Decision{Limit: 1, RetryAfter: time.Hour, ResetAfter: time.Hour}
		hash := cache.Hash(&c)
		cache.Learn(hash, &c, Response{CalledAt: at, RespondedAt: at, Generation: cache.Generation(hash), Decision: &d})
	}
	count := func() (n, long int64) {
		for i := range cache.sets {
			for j := range cache.sets[i] {
				if e := cache.sets[i][j].Load(); e != nil {
					n++
					long += longBytes(e)
				}
			}
		}
		return n, long
	}
	for i := range int64(3 * denySets * denialsPerSet) {
		deny(check(fmt.Sprint("key", i), "1/h"), i/1000)
	}
	if n, _ := count(); n > denySets*denialsPerSet || n < denySets*denialsPerSet*99/100 { // not every set has got enough keys
		t.Errorf("got %d denials, want about %d", n, denySets*denialsPerSet)
	}
	c := check("key"+fmt.Sprint(3*denySets*denialsPerSet-1), "1/h")
	if _, ok := cache.Lookup(cache.Hash(&c), &c, 50); !ok {
		t.Error("the last one is not remembered")
	}
	for i := range int64(10_000) {
		deny(check(strings.Repeat("k", 4000)+fmt.Sprint(i), "1/h"), 100)
	}
	n, long := count()
	if long > maxLongBytes || long < maxLongBytes/2 || long != cache.longBytes.Load() {
		t.Errorf("got %d bytes of long keys, counted %d, want at most %d", long, cache.longBytes.Load(), maxLongBytes)
	}
	if n > denySets*denialsPerSet {
		t.Errorf("got %d denials", n)
	}
	for i := range cache.sets {
		for j := range cache.sets[i] {
			if e := cache.sets[i][j].Load(); e != nil {
				cache.Drop(e.hash, e.key)
			}
		}
	}
	if n, long := count(); n != 0 || long != 0 || cache.longBytes.Load() != 0 {
		t.Errorf("got %d denials, %d bytes, counted %d, want none", n, long, cache.longBytes.Load())
	}
}
