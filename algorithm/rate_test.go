package algorithm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestMulDiv compares the divisions with unbounded ones, at the edges of 64 and 128 bits too.
func TestMulDiv(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func() int64 {
		edges := []int64{0, 1, 2, 3, 1 << 31, 1<<32 - 1, 1 << 40, 11 << 40, 1 << 53, math.MaxInt64 - 1, math.MaxInt64}
		if rng.IntN(3) == 0 {
			return edges[rng.IntN(len(edges))]
		}
		return rng.Int64() >> rng.IntN(63)
	}
	for range 200_000 {
		a, b, c, most := draw(), draw(), max(1, draw()), draw()
		q, rest := new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		bounded := func(q *big.Int) int64 {
			if q.Cmp(big.NewInt(most)) > 0 {
				return most
			}
			return q.Int64()
		}
		if got, want := mulDivFloor(a, b, c, most), bounded(q); got != want {
			t.Fatalf("floor(%d·%d/%d) up to %d: got %d, want %d", a, b, c, most, got, want)
		}
		up := new(big.Int).Set(q)
		if rest.Sign() > 0 {
			up.Add(up, big.NewInt(1))
		}
		if got, want := mulDivCeil(a, b, c, most), bounded(up); got != want {
			t.Fatalf("ceil(%d·%d/%d) up to %d: got %d, want %d", a, b, c, most, got, want)
		}
		if b > c || c > 1<<62 {
			continue
		}
		near := new(big.Int).Set(q)
		if rest.Lsh(rest, 1).Cmp(big.NewInt(c)) > 0 {
			near.Add(near, big.NewInt(1))
		}
		if got, want := mulDivNear(a, b, c), near.Int64(); got != want {
			t.Fatalf("near(%d·%d/%d): got %d, want %d", a, b, c, got, want)
		}
	}
}

func TestGreatestCommonDivisor(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 10_000 {
		divisor := rng.Int64N(1<<20) + 1
		a, b := (rng.Int64N(1<<30)+1)*divisor, (rng.Int64N(1<<30)+1)*divisor
		want := new(big.Int).GCD(nil, nil, big.NewInt(a), big.NewInt(b)).Uint64()
		if got := gcd(uint64(a), uint64(b)); got != want {
			t.Fatalf("gcd(%d, %d): got %d, want %d", a, b, got, want)
		}
	}
}

func TestRateIsInLowestTerms(t *testing.T) {
	for _, test := range []struct{ count, micros, units, per int64 }{
		{10, 1_000_000, 1, 100_000},
		{300, 1_000_000, 3, 10_000},
		{7, 1_000_000, 7, 1_000_000},
		{1_000_000, 1, 1_000_000, 1},
		{1 << 40, 1 << 20, 1 << 20, 1},
	} {
		if got, want := newRate(test.count, test.micros), (rate{test.units, test.per}); got != want {
			t.Errorf("%d a %d µs: got %+v, want %+v", test.count, test.micros, got, want)
		}
	}
}

// TestAsMuchAs compares the time in which a rate drains as much as another with an unbounded division.
func TestAsMuchAs(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func(bits int) int64 { return 1 + rng.Int64N(1<<(1+rng.IntN(bits))) }
	for range 200_000 {
		r, other, held := newRate(draw(39), draw(43)), newRate(draw(39), draw(43)), draw(52)-1
		if other.unitsIn(held, 1<<40) == 1<<40 {
			continue // no refund has so many
		}
		units, micros := r.timeToDrain(other, held)
		drained := new(big.Int).Mul(big.NewInt(held), big.NewInt(other.units))
		want, rest := new(big.Int).QuoRem(drained.Mul(drained, big.NewInt(r.micros)),
			new(big.Int).Mul(big.NewInt(other.micros), big.NewInt(r.units)), new(big.Int))
		if rest.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		got := new(big.Int).Mul(big.NewInt(units/r.units), big.NewInt(r.micros))
		if got.Add(got, big.NewInt(micros)); got.Cmp(want) != 0 || units%r.units != 0 || micros >= r.micros {
			t.Fatalf("%+v as much as %+v in %d µs: got %d units and %d µs, want %v µs", r, other, held, units, micros, want)
		}
	}
}
