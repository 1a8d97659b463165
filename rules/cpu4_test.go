package rules_test

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/rules"
)

func TestVariants(t *testing.T) {
	dst := make([]rules.Matched, 0, 16)
	for _, n := range []int{100, 10000} {
		set := compile(t, mixed(n))
		reqs := requests(1025, n)
		for v := range 5 {
			fmt.Println(n, "fixed", v, quiet(func() { dst = set.Match(reqs[v], dst[:0]) }), len(dst))
			i := v
			fmt.Println(n, "varied", v, quiet(func() { dst = set.Match(reqs[i], dst[:0]); i = (i + 5) % 1025 }), len(dst))
		}
		r := *reqs[4]
		r.headers, r.apiKey, r.user = nil, "", "nobody"
		fmt.Println(n, "only host+path", quiet(func() { dst = set.Match(&r, dst[:0]) }), len(dst))
		r.path = "/nothing"
		fmt.Println(n, "nothing", quiet(func() { dst = set.Match(&r, dst[:0]) }), len(dst))
	}
}
