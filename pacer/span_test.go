package pacer

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// seeded returns a source that repeats, and logs its seed.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// rational returns what a span stands for.
func rational(s span, den uint64) *big.Rat {
	r := new(big.Rat).SetFrac(new(big.Int).SetUint64(s.frac), new(big.Int).SetUint64(den))
	return r.Add(r, new(big.Rat).SetInt64(s.ns))
}

// spread returns a number from 1 to most whose size, not value, is evenly distributed.
func spread(rng *rand.Rand, most int64) int64 {
	return 1 + rng.Int64N(1+rng.Int64N(1+int64(math.Exp(rng.Float64()*math.Log(float64(most))))))%most
}

func TestSpanArithmeticIsExact(t *testing.T) {
	rng := seeded(t, 1)
	for range 8_000 {
		num, den := uint64(spread(rng, 1<<60)), uint64(spread(rng, 1<<62))
		count := spread(rng, 1<<40)
		a := spanOf(count, num, den)
		exact := new(big.Rat).SetFrac(new(big.Int).SetUint64(num), new(big.Int).SetUint64(den))
		exact.Mul(exact, new(big.Rat).SetInt64(count))
		if exact.Cmp(new(big.Rat).SetInt64(farFuture)) >= 0 {
			if a.ns != farFuture {
				t.Fatalf("spanOf(%d, %d, %d) = %+v, want farFuture", count, num, den, a)
			}
			continue
		}
		if got := rational(a, den); got.Cmp(exact) != 0 || a.frac >= den {
			t.Fatalf("spanOf(%d, %d, %d) = %+v, want %v", count, num, den, a, exact)
		}
		b := spanOf(spread(rng, 1<<20), num, den)
		if b.ns == farFuture {
			continue
		}
		sum := new(big.Rat).Add(rational(a, den), rational(b, den))
		got := a.plus(b, den)
		if got.ns == farFuture {
			continue
		}
		if rational(got, den).Cmp(sum) != 0 || got.frac >= den {
			t.Fatalf("%+v plus %+v over %d = %+v, want %v", a, b, den, got, sum)
		}
		if back := got.minus(b, den); back != a {
			t.Fatalf("%+v minus %+v over %d = %+v, want %+v", got, b, den, back, a)
		}
		if less, want := a.less(b), rational(a, den).Cmp(rational(b, den)) < 0; less != want {
			t.Fatalf("%+v less %+v = %v, want %v", a, b, less, want)
		}
	}
}

func TestSpanStopsAtTheEndOfTime(t *testing.T) {
	far := span{ns: farFuture}
	for _, c := range []struct {
		name string
		got  span
	}{
		{"a product beyond 128 bits over den", spanOf(math.MaxInt64, math.MaxUint64, 1)},
		{"a product beyond 2^61 ns", spanOf(farFuture, 1, 1)},
		{"a sum of two large spans", span{ns: farFuture - 1}.plus(span{ns: farFuture - 1}, 1)},
		{"farFuture and farFuture", far.plus(far, 1)},
		{"a carry onto the last nanosecond", span{ns: farFuture - 1, frac: 2}.plus(span{frac: 1}, 3)},
	} {
		if c.got != far {
			t.Errorf("%s: got %+v, want %+v", c.name, c.got, far)
		}
	}
	if got, want := spanOf(farFuture-1, 1, 1), (span{ns: farFuture - 1}); got != want {
		t.Errorf("the last nanosecond: got %+v, want %+v", got, want)
	}
}

func TestSpanRoundsUp(t *testing.T) {
	if got := (span{ns: 7}).ceil(); got != 7 {
		t.Errorf("ceil of 7 = %d, want 7", got)
	}
	if got := (span{ns: 7, frac: 1}).ceil(); got != 8 {
		t.Errorf("ceil of 7 and a bit = %d, want 8", got)
	}
}
