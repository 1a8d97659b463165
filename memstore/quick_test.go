package memstore

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestQuick(t *testing.T) {
	s, _ := New(Options{})
	defer s.Close()
	b, err := s.Bind(headgate.PerSecond(10))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(b.plan.compact, b.plan.life)
	for i := range 12 {
		d, err := b.Take("alice", 1)
		t.Log(i, d, err)
	}
	start := time.Now()
	for i := range 3_000_000 {
		if !b.Allow(fmt.Sprint(i)) {
			t.Fatal(i)
		}
	}
	st := s.Stats()
	t.Log(st, float64(st.Bytes)/float64(st.Keys), time.Since(start))
}

func BenchmarkUniform(b *testing.B) {
	s, _ := New(Options{})
	defer s.Close()
	lim, _ := s.Bind(headgate.Per(100, time.Second))
	keys := make([]string, 1<<20)
	for i := range keys {
		keys[i] = fmt.Sprintf("client-%d", i)
		lim.Allow(keys[i])
	}
	idx := make([]uint32, 1<<21)
	for i := range idx {
		idx[i] = rand.Uint32N(1 << 20)
	}
	b.ReportAllocs()
	b.ResetTimer()
	i := 0
	for b.Loop() {
		lim.Allow(keys[idx[i&(1<<21-1)]])
		i++
	}
}

func BenchmarkOneKey(b *testing.B) {
	s, _ := New(Options{})
	defer s.Close()
	lim, _ := s.Bind(headgate.Per(100000, time.Second))
	b.ReportAllocs()
	for b.Loop() {
		lim.Allow("client")
	}
}

func BenchmarkFloor(b *testing.B) {
	const n = 1 << 21
	table := make([]slot, n)
	seed := maphash.MakeSeed()
	start := time.Now()
	allow := func(key string) bool {
		h := maphash.String(seed, key)
		now := int64(time.Since(start)) / 1000
		for i := h & (n - 1); ; i = (i + 1) & (n - 1) {
			e := &table[i]
			tag := atomic.LoadUint64(&e.tag)
			if tag == 0 {
				if !atomic.CompareAndSwapUint64(&e.tag, 0, h) {
					continue
				}
				tag = h
			}
			if tag != h {
				continue
			}
			for {
				tat := atomic.LoadUint64(&e.state)
				t := max(int64(tat), now) + 10000
				if t > now+1000000 {
					return false
				}
				if atomic.CompareAndSwapUint64(&e.state, tat, uint64(t)) {
					return true
				}
			}
		}
	}
	keys := make([]string, 1<<20)
	for i := range keys {
		keys[i] = fmt.Sprintf("client-%d", i)
		allow(keys[i])
	}
	idx := make([]uint32, 1<<21)
	for i := range idx {
		idx[i] = rand.Uint32N(1 << 20)
	}
	b.ReportAllocs()
	b.ResetTimer()
	i := 0
	for b.Loop() {
		allow(keys[idx[i&(1<<21-1)]])
		i++
	}
}

func BenchmarkClock(b *testing.B) {
	start := time.Now()
	var x time.Duration
	for b.Loop() {
		x += time.Since(start)
	}
}
