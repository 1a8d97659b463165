package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A growth is how long single insertions took while a table grew from nothing, in nanoseconds.
type growth struct {
	Keys                       int
	Seconds                    float64 // from the first to the last
	P50, P99, P999, P9999, Max int64
	Mean                       float64
	Above100us                 int64
	Steps, LongSteps           int64 // of rehashing and sweeping, as the contender counts them; none if it does not
}

// grow times every first decision on so many fresh keys. The time includes two halves of a reading of the clock. The
// loop alone goes on until as many seconds have passed as a contender needed, so that it is held up as often.
func grow(e entry, q quota, keys int, seconds float64) (growth, error) {
	c, err := e.make(q, keys)
	if err != nil {
		return growth{}, fmt.Errorf("make %s: %w", e.name, err)
	}
	var h histogram
	start := time.Now()
	denied := 0
	visit := func(key string) {
		from := time.Since(start)
		ok := c.Allow(key)
		h.record(int64(time.Since(start) - from))
		if !ok {
			denied++
		}
	}
	eachKey(keys, e.keepsKeys, visit)
	for e.role == loop && time.Since(start).Seconds() < seconds {
		eachKey(1000, e.keepsKeys, visit)
	}
	took := time.Since(start).Seconds()
	if denied > 0 {
		return growth{}, fmt.Errorf("grow %s: the first request of %d keys was denied", e.name, denied)
	}
	g := growth{
		Keys: keys, Seconds: took, Mean: h.mean(), Max: h.max, Above100us: h.above(int64(100 * time.Microsecond)),
		P50: h.quantile(0.5), P99: h.quantile(0.99), P999: h.quantile(0.999), P9999: h.quantile(0.9999),
	}
	if c, ok := c.(stepping); ok {
		g.Steps, g.LongSteps = c.steps()
	}
	return g, nil
}

// A tablePoint is how large a table is at a number of keys.
type tablePoint struct {
	Keys  int64
	Bytes int64
}

// perKey returns bytes a key.
func (p tablePoint) perKey() float64 { return float64(p.Bytes) / float64(p.Keys) }

// A tableGrowth is how large a table was while it grew: at the sizes asked for, and the most and least that a key took
// from the first of them on, looked at after every hundredth more.
type tableGrowth struct {
	At         []tablePoint
	Most, Best tablePoint
}

// growTable fills a contender up to keys keys and looks at its table at the sizes in at, separated by commas.
func growTable(e entry, q quota, keys int, at string) (tableGrowth, error) {
	var stops []int
	for word := range strings.SplitSeq(at, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return tableGrowth{}, fmt.Errorf("sizes %q: %w", at, err)
		}
		stops = append(stops, n)
	}
	c, err := e.make(q, keys)
	if err != nil {
		return tableGrowth{}, fmt.Errorf("make %s: %w", e.name, err)
	}
	t, ok := c.(counted)
	if !ok {
		return tableGrowth{}, fmt.Errorf("%s does not tell the size of its table", e.name)
	}
	var g tableGrowth
	n, next := 0, stops[0]
	eachKey(keys, e.keepsKeys, func(key string) {
		c.Allow(key)
		if n++; n < next {
			return
		}
		size := t.table()
		p := tablePoint{Keys: size.Keys, Bytes: size.Bytes}
		if g.Most.Keys == 0 || p.perKey() > g.Most.perKey() {
			g.Most = p
		}
		if g.Best.Keys == 0 || p.perKey() < g.Best.perKey() {
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
