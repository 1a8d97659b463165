package redisstore

import (
	"context"
	_ "embed"
	"encoding/ascii85"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

//go:embed region.lua
var regionLua string

// A RegionBook is where the nodes of a region add up their consumption, in the region's own Redis, and store that of
// other regions, for fleet/region. [Store.RegionBook] returns one.
type RegionBook struct {
	store  *Store
	name   string
	script *script
}

// RegionBook returns the book of the region whose store this is, for a fleet of that name, "fleet" if it is empty.
func (s *Store) RegionBook(name string) (*RegionBook, error) {
	if name == "" {
		name = "fleet"
	}
	if err := checkFleetName(name); err != nil {
		return nil, err
	}
	return &RegionBook{store: s, name: name, script: newScript(s.currentScripts().major, writes, regionLua)}, nil
}

// Report adds what a node consumed to what the region did, once however often it is reported: since when, in which
// window (0 if there are none), how much, and how much of that was reported before. A node that starts again needs
// another name. One node speaks for the region for as long as hold, for each key. learned says whether the node knows
// what other regions consumed. reported is called with whether this node speaks, whether the speaker has known of other
// regions of late, when the region's record began, how much was consumed since, and the server's time, in µs.
func (b *RegionBook) Report(
	ctx context.Context, node string, keys []string, starts, windows, totals, told []int64, learned []bool, keep []time.Duration,
	hold time.Duration, reported func(key int, speaks, known bool, start, total, now int64),
) (missed []int, err error) {
	return b.run(ctx, keys, []string{"report", node, decimal(hold.Microseconds())}, func(i int) []string {
		knows := "0"
		if learned[i] {
			knows = "1"
		}
		return []string{
			decimal(starts[i]), decimal(windows[i]), decimal(totals[i]), decimal(told[i]), knows, decimal(
				keep[i].Milliseconds()),
		}
	}, 1, 4, func(i int, head, parts []int64) {
		reported(i, parts[0] == 1, parts[1] == 1, parts[2], parts[3], head[0])
	})
}

// Settle takes note of what other regions consumed, and calls settled with the units that were not known, once for the
// whole region, and whether the region had not been heard of before.
func (b *RegionBook) Settle(ctx context.Context, keys, regions []string, starts, totals, said, all, most []int64,
	keep []time.Duration,
	settled func(item int, units int64, first, leaped, fell bool),
) (missed []int, err error) {
	return b.run(ctx, keys, []string{"settle"}, func(i int) []string {
		return []string{
			regions[i], decimal(starts[i]), decimal(totals[i]), decimal(said[i]), decimal(all[i]),
			decimal(most[i]), decimal(keep[i].Milliseconds()),
		}
	}, 0, 3, func(i int, _, parts []int64) { settled(i, parts[0], parts[1] == 1, parts[2] == 1, parts[2] == 2) })
}

// run runs the script for keys, place by place. An answer has some numbers for all, and some for each key.
func (b *RegionBook) run(ctx context.Context, keys, head []string, args func(i int) []string, forAll, forEach int,
	each func(i int, head, parts []int64),
) (missed []int, err error) {
	s := b.store
	if _, err := s.begin(ctx); err != nil {
		return all(len(keys)), err
	}
	var byPlace [places]*errand
	var errands []*errand
	for i, key := range keys {
		if len(key) != nameSize {
			return all(len(keys)), fmt.Errorf("redisstore: a key of %d bytes: want %d", len(key), nameSize)
		}
		at := int(key[0]) % places
		e := byPlace[at]
		if e == nil {
			e = &errand{place: at, args: append([]string(nil), head...)}
			byPlace[at], errands = e, append(errands, e)
		}
		var name [nameBytes]byte
		size := ascii85.Encode(name[:], []byte(key))
		e.keys = append(e.keys, s.prefix+":"+b.name+":region{"+tagOf(at)+"}"+string(name[:size]))
		e.args = append(e.args, args(i)...)
		e.index = append(e.index, i)
	}
	for n, result := range s.sendAll(ctx, b.script, errands) {
		e := errands[n]
		if failed := b.read(e, result, forAll, forEach, each); failed != nil {
			missed, err = append(missed, e.index...), errors.Join(err, failed)
		}
	}
	return missed, err
}

func (b *RegionBook) read(
	e *errand, result rueidis.RedisResult, forAll, forEach int, each func(i int, head, parts []int64),
) error {
	s := b.store
	list, err := result.ToArray()
	if err != nil {
		return withKeys(s.explain(err, e.keys[0]), e.keys[:1])
	}
	numbers := make([]int64, len(list))
	for i := range list {
		if numbers[i], err = list[i].AsInt64(); err != nil {
			return s.explainReply(errMalformed, e.keys[0])
		}
	}
	if len(numbers) != forAll+forEach*len(e.index) {
		return s.explainReply(errMalformed, e.keys[0])
	}
	for n, i := range e.index {
		from := forAll + n*forEach
		each(i, numbers[:forAll], numbers[from:from+forEach])
	}
	return nil
}
