package headgate_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

func TestCheckValidate(t *testing.T) {
	good := headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 1}
	for _, n := range []int64{1, 11, math.MaxInt64} { // what is above the limit is denied, not refused
		c := good
		c.Cost = n
		if err := c.Validate(); err != nil {
			t.Errorf("cost %d: %v", n, err)
		}
	}
	bad := good
	for _, n := range []int64{0, -1} {
		bad.Cost = n
		inputError(t, bad.Validate(), headgate.ErrInvalidCheck, "Cost")
	}
	inputError(t, bad.ValidatePeek(), headgate.ErrInvalidCheck, "Cost")
	bad.Cost = 0
	if err := bad.ValidatePeek(); err != nil {
		t.Errorf("cost 0 of a peek: %v", err)
	}
	bad = good
	bad.Key = ""
	inputError(t, bad.Validate(), headgate.ErrInvalidCheck, "Key")
	bad = good
	bad.Limit.Count = 0
	inputError(t, bad.Validate(), headgate.ErrInvalidLimit, "Count")
}

func TestValidateKey(t *testing.T) {
	for _, key := range []string{"a", "\x00", "\xff\xfe", strings.Repeat("k", headgate.MaxKeyBytes)} {
		if err := headgate.ValidateKey(key); err != nil {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	inputError(t, headgate.ValidateKey(""), headgate.ErrInvalidCheck, "Key")
	err := headgate.ValidateKey(strings.Repeat("k", 1<<20))
	inputError(t, err, headgate.ErrInvalidCheck, "Key")
	if text := err.Error(); len(text) > 300 || !strings.Contains(text, "1048576 bytes") {
		t.Errorf("a long key floods its error: %d bytes", len(text))
	}
}

func TestValidateUnits(t *testing.T) {
	for _, n := range []int64{1, headgate.MaxCount} {
		if err := headgate.ValidateUnits(n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, n := range []int64{0, -1, math.MinInt64, headgate.MaxCount + 1, math.MaxInt64} {
		inputError(t, headgate.ValidateUnits(n), headgate.ErrInvalidCheck, "Cost")
	}
}

func TestValidateRefund(t *testing.T) {
	r := headgate.Receipt{At: 1, Units: 5}
	for _, n := range []int64{1, 5} {
		if err := headgate.ValidateRefund(n, r); err != nil {
			t.Errorf("%d of 5: %v", n, err)
		}
	}
	for _, n := range []int64{0, -1, 6, headgate.MaxCount + 1} {
		inputError(t, headgate.ValidateRefund(n, r), headgate.ErrInvalidCheck, "Cost")
	}
	inputError(t, headgate.ValidateRefund(1, headgate.Receipt{}), headgate.ErrInvalidCheck, "Cost")
}

func TestValidateCombination(t *testing.T) {
	checks := make([]headgate.Check, headgate.MaxChecks+1)
	for i := range checks {
		checks[i].Key = fmt.Sprint(i)
	}
	if err := headgate.ValidateCombination(nil); err != nil {
		t.Errorf("none: %v", err)
	}
	if err := headgate.ValidateCombination(checks[1:]); err != nil {
		t.Errorf("as many as may be: %v", err)
	}
	inputError(t, headgate.ValidateCombination(checks), headgate.ErrInvalidCheck, "checks")
	checks[5].Key = checks[77].Key
	inputError(t, headgate.ValidateCombination(checks[1:]), headgate.ErrInvalidCheck, "Key")
}

func TestInputErrorSaysWhatAndWhy(t *testing.T) {
	err := fmt.Errorf("load: %w", headgate.Limit{Count: -3}.Validate())
	if !errors.Is(err, headgate.ErrInvalidLimit) || errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("%v wraps the wrong error", err)
	}
	if want := "load: invalid limit: Count -3: want 1 to 1099511627776"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
