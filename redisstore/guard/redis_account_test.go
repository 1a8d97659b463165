package guard_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// An account is the requests of one client and their decisions.
type account struct {
	checks []headgate.Check
	shard  string // of its key when the crowd was created

	asked    atomic.Int64
	taken    []atomic.Int64 // units, by check, of decisions that are not degraded
	denied   atomic.Int64   // requests, by such decisions
	degraded atomic.Int64   // decisions
}

func newAccount(checks ...headgate.Check) *account {
	return &account{checks: checks, taken: make([]atomic.Int64, len(checks))}
}

// variety are limits under which little passes in a test. Some of them refill during the test.
var variety = []string{"20/s burst 20", "50/d", "30/s gcra burst 10", "40/d sliding-log"}

// newAccounts returns n clients with one limit each.
func newAccounts(n int) []*account {
	list := make([]*account, n)
	for i := range list {
		list[i] = newAccount(headgate.Check{
			Key: fmt.Sprint("client", i), Limit: headgate.MustParseLimit(variety[i%len(variety)]), Cost: 1,
		})
	}
	return list
}

func (a *account) String() string { return a.checks[0].Key }

// refills reports whether units soon come back.
func (a *account) refills() bool {
	return !slices.ContainsFunc(a.checks, func(c headgate.Check) bool { return c.Limit.Period > time.Hour })
}

func everybody(*account) bool { return true }

// onShard passes the accounts that were on one when the crowd was made.
func onShard(name string) func(*account) bool {
	return func(a *account) bool { return a.shard == name }
}

func notOnShard(name string) func(*account) bool {
	return func(a *account) bool { return a.shard != name }
}
