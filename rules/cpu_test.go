package rules_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
)

func cpu() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

func TestCPU(t *testing.T) {
	for _, n := range []int{3, 100, 1000, 10_000} {
		set := compile(t, mixed(n))
		asked := requests(1024, n)
		dst := make([]rules.Matched, 0, 16)
		var best []int64
		for range 1000 {
			c0 := time.Now()
			const N = 512
			for i := range N {
				dst = set.Match(asked[i], dst[:0])
			}
			best = append(best, int64(time.Since(c0)/N))
		}
		slices.Sort(best)
		fmt.Println(n, "min", best[0], "10%", best[100], "median", best[500])
	}
}
