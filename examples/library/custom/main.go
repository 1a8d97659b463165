// Command custom limits by an algorithm of its own: windows that begin with a client's first request.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/memstore"
)

// firstWindow is the number of the algorithm in limits.
const firstWindow = headgate.FirstCustom

// A window is the algorithm. It stores two numbers for each key: the time at which the window began, in microseconds,
// and the units that were taken since then.
type window struct{}

func (window) Used(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
	if now >= s[0]+l.Period.Microseconds() {
		return 0
	}
	return s[1]
}

func (w window) Take(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
	if w.Used(l, s, now) == 0 {
		return algorithm.Numbers{now, n}
	}
	return algorithm.Numbers{s[0], s[1] + n}
}

func (window) Give(_ headgate.Limit, s algorithm.Numbers, _, n, taken int64) algorithm.Numbers {
	if taken >= s[0] {
		s[1] = max(0, s[1]-n)
	}
	return s
}

var algorithms = map[headgate.Algorithm]algorithm.Custom{firstWindow: window{}}

func main() {
	store := memstore.MustNew(memstore.Options{Algorithms: algorithms})
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.Limit{Algorithm: firstWindow, Count: 2, Period: time.Minute})
	for range 3 {
		d, err := perUser.Take(context.Background(), "alice", 1)
		if err != nil {
			log.Print(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter.Round(time.Second))
	}
}
