package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestCalib(t *testing.T) {
	m := map[string]int32{}
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint("tenant-", i))
		m[keys[i]] = int32(i)
	}
	var best []int64
	x := int32(0)
	for range 1000 {
		c0 := time.Now()
		for _, k := range keys {
			x += m[k]
		}
		best = append(best, int64(time.Since(c0))/100)
	}
	slices.Sort(best)
	fmt.Println("map lookup x10: min", best[0], "10%", best[100], "median", best[500], x)
	var reqs []*request = requests(1024, 3000)
	best = best[:0]
	n := 0
	for range 1000 {
		c0 := time.Now()
		for _, r := range reqs {
			s, _ := r.Get(user)
			n += len(s)
		}
		best = append(best, int64(time.Since(c0))*100/1024)
	}
	slices.Sort(best)
	fmt.Println("Get x100: min", best[0], "10%", best[100], "median", best[500], n)
}
