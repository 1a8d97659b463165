package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
	definition "github.com/headgate/headgate/internal/oracle"
)

func TestEveryWrongUnitCountsOnce(t *testing.T) {
	o, err := newOracle([]headgate.Limit{headgate.MustParseLimit("10/s")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	count := func(from, requests, every int64, allowed bool) (wrong int) {
		for i := range requests {
			if bad, _ := o.judge(1, from+i*every, 1, allowed); bad {
				wrong++
			}
		}
		return wrong
	}
	const second = 1_000_000
	if got := count(0, 15, 0, true); got != 5 {
		t.Errorf("15 admitted at once: %d are wrong, want 5", got)
	}
	if got := count(second/10, 50, second/10, true); got != 0 {
		t.Errorf("then 10 per second: %d are wrong, want 0", got)
	}
	if got := count(100*second, 30, 0, false); got != 10 {
		t.Errorf("30 denied at once by a full bucket: %d are wrong, want 10", got)
	}
	if got := count(100*second+second/10, 20, second/10, true); got != 0 {
		t.Errorf("then 10 per second: %d are wrong, want 0", got)
	}
}

// TestOracleAgreesWithTheDefinition compares the oracle, which counts by the algorithms' own steps, with the one that is
// written from their definitions.
func TestOracleAgreesWithTheDefinition(t *testing.T) {
	for _, text := range []string{
		"10/s", "50/s burst 100", "7/3s gcra", "20/m leaky-bucket", "30/2s fixed-window", "25/2s sliding-log",
	} {
		limit := headgate.MustParseLimit(text)
		o, err := newOracle([]headgate.Limit{limit}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defined := definition.New(limit)
		random := rand.New(rand.NewPCG(1, 2))
		now := int64(1_700_000_000_000_000)
		for range 3000 {
			now += random.Int64N(2 * limit.Period.Microseconds() / limit.Count)
			want := defined.Fits(now, 1)
			wrong, excess := o.judge(1, now, 1, want)
			if wrong || excess > 0 {
				t.Fatalf("%s at %d: a decision by the definition, %v, is wrong, excess %d", text, now, want, excess)
			}
			if want {
				defined.Force(now, 1)
			}
		}
	}
}
