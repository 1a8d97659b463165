package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// grow times the first decision on each of many new keys. Each time includes two halves of a clock reading. The empty
// loop runs for as many seconds as a contender needed, so that it is interrupted as often.
func grow(e limiters.Entry, q limiters.Quota, keys int, seconds float64) (harness.Growth, error) {
	c, err := e.Make(q, keys)
	if err != nil {
		return harness.Growth{}, fmt.Errorf("make %s: %w", e.Name, err)
	}
	var h harness.Histogram
	start := time.Now()
	denied := 0
	visit := func(key string) {
		from := time.Since(start)
		ok := c.Allow(key)
		h.Record(int64(time.Since(start) - from))
		if !ok {
			denied++
		}
	}
	harness.EachKey(keys, e.KeepsKeys, visit)
	for e.Role == harness.Loop && time.Since(start).Seconds() < seconds {
		harness.EachKey(1000, e.KeepsKeys, visit)
	}
	took := time.Since(start).Seconds()
	if denied > 0 {
		return harness.Growth{}, fmt.Errorf("grow %s: the first request of %d keys was denied", e.Name, denied)
	}
	g := harness.Growth{
		Keys: keys, Seconds: took, Mean: h.Mean(), Max: h.Max, Above100us: h.Above(int64(100 * time.Microsecond)),
		P50: h.Quantile(0.5), P99: h.Quantile(0.99), P999: h.Quantile(0.999), P9999: h.Quantile(0.9999),
	}
	if c, ok := c.(limiters.Stepping); ok {
		g.Steps, g.LongSteps = c.Steps()
	}
	return g, nil
}

// growTable fills a contender with the given number of keys, and records the size of its table at the numbers of keys
// in at, which are separated by commas.
func growTable(e limiters.Entry, q limiters.Quota, keys int, at string) (harness.TableGrowth, error) {
	var stops []int
	for word := range strings.SplitSeq(at, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return harness.TableGrowth{}, fmt.Errorf("sizes %q: %w", at, err)
		}
		stops = append(stops, n)
	}
	c, err := e.Make(q, keys)
	if err != nil {
		return harness.TableGrowth{}, fmt.Errorf("make %s: %w", e.Name, err)
	}
	t, ok := c.(limiters.Counted)
	if !ok {
		return harness.TableGrowth{}, fmt.Errorf("%s does not tell the size of its table", e.Name)
	}
	var g harness.TableGrowth
	n, next := 0, stops[0]
	harness.EachKey(keys, e.KeepsKeys, func(key string) {
		c.Allow(key)
		if n++; n < next {
			return
		}
		size := t.Table()
		p := harness.TablePoint{Keys: size.Keys, Bytes: size.Bytes}
		if g.Most.Keys == 0 || p.PerKey() > g.Most.PerKey() {
			g.Most = p
		}
		if g.Best.Keys == 0 || p.PerKey() < g.Best.PerKey() {
			g.Best = p
		}
		next = n + max(1, n/100)
		if len(stops) > 0 && n >= stops[0] {
			g.At = append(g.At, p)
			stops = stops[1:]
		}
		if len(stops) > 0 {
			next = min(next, stops[0])
		}
	})
	return g, nil
}
