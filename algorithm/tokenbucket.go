package algorithm

// tokenBucket admits n units if the bucket has room for them after draining until now. It never admits more than
// capacity + rate·t units in any time t.
type tokenBucket struct{ bucketSteps }

func (tokenBucket) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "bucket"}, give: "bucketgive", room: "bucketroom"}
}

// takeBucket takes n units if the bucket has room for them, and reports whether it took them.
func (p *Plan) takeBucket(b Pair, now, n int64) (Pair, bool) {
	b, drained := b.slide(p.rate, now)
	if b.Units+n-drained > p.capacity {
		return b, false
	}
	b.Units += n
	b.Last = max(now, b.Last)
	return b, true
}
