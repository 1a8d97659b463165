package memstore

import (
	"context"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/headgate/headgate"
)

const benchClients = 400_000 // so many that their counters are not in the cache

// A writableKey is a key in memory that is used again, as servers have them.
type writableKey []byte

func newWritableKey(rule int) writableKey {
	return writableKey("rule-" + string('a'+rune(rule)) + "/client-00000000")
}

func (k writableKey) String() string { return unsafe.String(&k[0], len(k)) }

func (k writableKey) set(client int) {
	for at := len(k) - 1; at >= len(k)-8; at-- {
		k[at] = "0123456789abcdef"[client%16]
		client /= 16
	}
}

// BenchmarkTakeAll decides the limits of one client after another.
func BenchmarkTakeAll(b *testing.B) {
	for _, bench := range []struct {
		name   string
		limits []string
	}{
		{"one", []string{"80000/s"}},
		{"two", []string{"90000/s", "80000/s"}},
		{"five", []string{"90000/s", "80000/s", "70000/s fixed-window", "60000/s gcra", "50000/s"}},
		{"two and a window", []string{"90000/s", "80000/s", "100000000/h sliding-window"}},
		{"five of all kinds", []string{"90000/s", "80000/s fixed-window", "100000000/h sliding-window", "1000000/m sliding-window", "50000/s"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newStore(b, Options{})
			ctx := context.Background()
			checks := make([]headgate.Check, len(bench.limits))
			keys := make([]writableKey, len(checks))
			for i, limit := range bench.limits {
				keys[i] = newWritableKey(i)
				checks[i] = headgate.Check{Key: keys[i].String(), Limit: headgate.MustParseLimit(limit), Cost: 1}
			}
			dst := make([]headgate.Decision, 0, len(checks))
			ask := func(client int) {
				for _, k := range keys {
					k.set(client)
				}
				ds, err := s.TakeAll(ctx, checks, dst)
				if err != nil || !headgate.Allowed(ds) {
					b.Fatal(ds, err)
				}
			}
			for client := range benchClients {
				ask(client)
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(benchClients)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ask(order[i%benchClients])
			}
		})
	}
}
