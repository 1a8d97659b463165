package limittest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// caseTests returns one test for every case of the scripts of package algorithm.
func caseTests() ([]suiteTest, error) {
	files, err := fs.Glob(algorithm.Cases, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var tests []suiteTest
	for _, file := range files {
		text, err := fs.ReadFile(algorithm.Cases, file)
		if err != nil {
			return nil, err
		}
		cases, err := parseScript(file, string(text))
		if err != nil {
			return nil, err
		}
		for _, c := range cases {
			tests = append(tests, suiteTest{
				group: "cases",
				name:  strings.TrimSuffix(path.Base(file), ".txt") + "/" + c.name,
				run:   func(tr *trial) { tr.replay(c) },
			})
		}
	}
	return tests, nil
}

func (tr *trial) replay(c scriptCase) { replay(tr, tr.limiter, tr.Clock, c) }

// RunScript replays a script. It runs each case as a subtest with a new limiter. name is the file of the script, for
// error messages.
//
// A script is lines of text. A # at the beginning of a line or after a space begins a comment.
//
//	case the worked example: capacity 10, refill 10/s
//	limit 10/s
//	at 300ms take alice 6 -> allow remaining=4
//	at 500ms take alice 5 -> allow remaining=1
//	at 1.4s peek alice -> allow remaining=10 reset=0s
//
// A case begins with nothing consumed, at 2026-01-01T00:00:00Z, which is a multiple of every period that divides a day.
// Its lines are:
//
//	limit LIMIT
//	limit NAME = LIMIT
//
// LIMIT is text for [headgate.ParseLimit]. Without a name, it is the limit of the following steps. With a name, it is
// the limit of steps with "under NAME". A later line replaces the limit, which tests a change of the limit.
//
//	at TIME take CHECK -> OUTCOME
//	at TIME charge CHECK -> OUTCOME
//	at TIME peek KEY [under NAME] -> OUTCOME
//	at TIME takeall CHECK and CHECK … -> OUTCOME and OUTCOME …
//	at TIME give KEY COST of RECEIPT [under NAME] [-> error=NAME]
//	at TIME renew KEY COST of RECEIPT [under NAME] -> allow|deny|error=NAME
//	at TIME reset KEY [-> error=NAME]
//
// A TIME is the time since the beginning of the case: a Go duration, or a sum of several, as in 1s-1us. It may be
// before the time of the previous step. A CHECK is KEY COST [under NAME] [as RECEIPT]. RECEIPT is a name for the
// receipt, for later refunds and renewals. An OUTCOME is error=NAME, where NAME is invalid-check, invalid-limit or
// unsupported, or it has the expected fields of the decision:
//
//	allow|deny [remaining=N] [retry=TIME|never] [reset=TIME] [delay=TIME] [limit=N] [units=N]
//
// units is the number of units in the receipt. Omitted fields are not compared, but some rules are always checked: the
// limit is the capacity, a decision has a retry if and only if it is denied, and it has a receipt only if units were
// taken.
func RunScript(t *testing.T, name, script string, newLimiter Maker) {
	t.Helper()
	cases, err := parseScript(name, script)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			clock := NewClock()
			replay(t, newLimiter(t, clock.Now), clock, c)
		})
	}
}

// replay runs the steps of a case, and reports each step whose outcome is not as expected.
func replay(t testing.TB, l headgate.Limiter, clock *Clock, c scriptCase) {
	t.Helper()
	receipts := make(map[string]headgate.Receipt)
	for _, s := range c.steps {
		clock.setElapsed(s.at)
		if err := s.run(l, receipts); err != nil {
			t.Errorf("%s: %s\n\t%s", s.pos, s.text, strings.ReplaceAll(err.Error(), "\n", "\n\t"))
		}
	}
}

// run makes the call of a step and compares the outcome with the expected one.
func (s step) run(l headgate.Limiter, receipts map[string]headgate.Receipt) error {
	var decisions []headgate.Decision
	err := s.call(l, receipts, &decisions)
	if len(s.wants) > 0 && s.wants[0].err != nil {
		if !errors.Is(err, s.wants[0].err) {
			return fmt.Errorf("got error %s, want %s", fmt.Sprint(err), s.wants[0].err.Error())
		}
		return nil
	}
	if err != nil {
		return err
	}
	if len(decisions) != len(s.wants) {
		return fmt.Errorf("got %d decisions, want %d", len(decisions), len(s.wants))
	}
	var wrong []error
	all := headgate.Allowed(decisions)
	for i, d := range decisions {
		if err := s.wants[i].match(d); err != nil {
			wrong = append(wrong, err)
		}
		if s.verb != "charge" && s.verb != "renew" {
			if err := plausible(s.checks[i].Check, d, all); err != nil {
				wrong = append(wrong, err)
			}
		}
		if s.checks[i].saveAs != "" {
			receipts[s.checks[i].saveAs] = d.Receipt
		}
	}
	return errors.Join(wrong...)
}

// call makes the call of a step, and appends its decisions.
func (s step) call(l headgate.Limiter, receipts map[string]headgate.Receipt, decisions *[]headgate.Decision) error {
	ctx, c := context.Background(), s.checks[0]
	var d headgate.Decision
	var err error
	switch s.verb {
	case "give":
		return l.Give(ctx, c.Check, receipts[c.receipt])
	case "renew":
		d.Allowed, err = l.Renew(ctx, c.Check, receipts[c.receipt])
	case "reset":
		return l.Reset(ctx, c.Check)
	case "takeall":
		all := make([]headgate.Check, len(s.checks))
		for i := range all {
			all[i] = s.checks[i].Check
		}
		*decisions, err = l.TakeAll(ctx, all, nil)
		return err
	case "charge":
		d, err = l.Charge(ctx, c.Check)
	case "peek":
		d, err = l.Peek(ctx, c.Check)
	default: // take
		d, err = l.Take(ctx, c.Check)
	}
	*decisions = append(*decisions, d)
	return err
}

// plausible returns an error if a decision violates an invariant. taken says whether all checks of the call were taken.
func plausible(c headgate.Check, d headgate.Decision, taken bool) error {
	var wrong []error
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if want := c.Limit.Capacity(); d.Limit != want {
		fail("got limit %d, want %d", d.Limit, want)
	}
	if d.Degraded {
		fail("got a degraded decision")
	}
	if d.Allowed != (d.RetryAfter == 0) || d.RetryAfter < 0 {
		fail("got %s with retry %v", outcome(d.Allowed), d.RetryAfter)
	}
	if (d.RetryAfter == headgate.Never) != (c.Cost > d.Limit) {
		fail("got retry %v for a cost of %d of %d", d.RetryAfter, c.Cost, d.Limit)
	}
	if d.ResetAfter < 0 || d.Delay < 0 {
		fail("got reset %v, delay %v: want none below zero", d.ResetAfter, d.Delay)
	}
	if d.Delay != 0 && (!d.Allowed || c.Cost == 0 || c.Limit.Algorithm != headgate.LeakyBucket) {
		fail("got delay %v where nothing is to be delayed", d.Delay)
	}
	if d.Remaining > d.Limit || d.Allowed && d.Remaining < 0 {
		fail("got %s with %d remaining of %d", outcome(d.Allowed), d.Remaining, d.Limit)
	}
	if tookUnits := taken && c.Cost > 0; tookUnits {
		if d.Receipt.Units != c.Cost || (d.Receipt.Lease != 0) != (c.Limit.Algorithm == headgate.Concurrency) {
			fail("got receipt %+v for %d units taken", d.Receipt, c.Cost)
		}
	} else if d.Receipt != (headgate.Receipt{}) {
		fail("got receipt %+v though nothing was taken", d.Receipt)
	}
	return errors.Join(wrong...)
}

// requirePlausible fails the test if a decision is not plausible, and returns it.
func requirePlausible(t testing.TB, c headgate.Check, d headgate.Decision) headgate.Decision {
	t.Helper()
	if err := plausible(c, d, d.Allowed); err != nil {
		t.Fatalf("%s, cost %d: %v", c.Limit, c.Cost, err)
	}
	return d
}
