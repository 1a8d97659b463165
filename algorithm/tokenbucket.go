package algorithm

// tokenBucket admits n units if the bucket has room for them after draining until now. It never admits more than
// capacity + rate·t units in any time t.
type tokenBucket struct{ bucketSteps }

func (tokenBucket) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "bucket"}, give: "bucketgive", room: "bucketroom"}
}

// takeBucket takes n units if the bucket has room for them, and reports whether it took them.
func (p *Plan) takeBucket(b Pair, now, n int64) (Pair, bool) {
	moved, drained := b.slide(p.rate, now)
	if moved.Units+n-drained > p.capacity {
		return p.denyBucket(b, moved, drained, now), false
	}
	moved.Units += n
	moved.Last = max(now, moved.Last)
	return moved, true
}
