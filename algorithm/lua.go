package algorithm

import (
	"embed"
	"strings"

	"github.com/headgate/headgate"
)

//go:embed *.lua
var luaFiles embed.FS

// The files of each algorithm's script, in order, before the one that calls it.
var luaOf = [...][]string{
	headgate.TokenBucket:    {"exact", "bucket", "tokenbucket"},
	headgate.LeakyBucket:    {"exact", "bucket", "leakybucket"},
	headgate.GCRA:           {"exact", "bucket", "gcra"},
	headgate.FixedWindow:    {"fixedwindow"},
	headgate.SlidingLog:     {"store", "list", "slidinglog"},
	headgate.SlidingWindow:  {"exact", "store", "slidingwindow"},
	headgate.SlidingBuckets: {"exact", "store", "slidingbuckets"},
	headgate.Concurrency:    {"store", "list", "concurrency"},
}

// Lua returns the steps of an algorithm as a Redis script: its twin, which decides alike. What it is called with and
// what it answers is written in take.lua; [Plan.Found] reads the answer. It cannot give back: see LuaGive.
func Lua(a headgate.Algorithm) string { return luaStep(a) }

// LuaGive returns the same script with what is needed to give back.
func LuaGive(a headgate.Algorithm) string {
	switch a {
	case headgate.TokenBucket, headgate.LeakyBucket, headgate.GCRA:
		return luaStep(a, "bucketgive")
	default:
		return luaStep(a)
	}
}

func luaStep(a headgate.Algorithm, more ...string) string { return luaCall(a, "take", more...) }

// LuaGrant returns the twin of [Plan.Grant]. What it is called with and what it answers is written in grant.lua. It is empty
// for an algorithm that is not [Grantable].
func LuaGrant(a headgate.Algorithm) string {
	switch a {
	case headgate.TokenBucket, headgate.GCRA:
		return luaCall(a, "grant", "bucketroom")
	case headgate.FixedWindow:
		return luaCall(a, "grant", "fixedwindowroom")
	case headgate.SlidingWindow:
		return luaCall(a, "grant", "slidingwindowroom")
	default:
		return ""
	}
}

// luaCall returns the script that makes the steps of an algorithm by the file named call.
func luaCall(a headgate.Algorithm, call string, more ...string) string {
	names := luaOf[a]
	return lua("clock", "carry") + lua(names...) + lua(more...) + "local step = " + names[len(names)-1] + "\n" + lua(call)
}

// LuaAll returns the script that takes on several keys, whatever their algorithms, all or none. See takeall.lua.
func LuaAll() string {
	names := []string{"clock", "carry"}
	have := map[string]bool{}
	for _, list := range luaOf {
		for _, name := range list {
			if !have[name] {
				have[name] = true
				names = append(names, name)
			}
		}
	}
	return lua(names...) + lua("takeall")
}

// lua returns files one after the other, without their comments.
func lua(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // it is embedded
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "--") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// LuaArgs returns the numbers that the script of a limit's algorithm calls a and b: what it has to know of the plan
// beside its capacity. offset is by how much the key's clock is behind, lease the name of a place that may be taken. A
// window that is not staggered has 0 in the place of an offset plus 1.
func (p *Plan) LuaArgs(offset int64, lease uint64) (a, b int64) {
	switch p.kind {
	case KindBucket:
		return p.rate.units, p.rate.micros
	case KindWindow:
		if p.limit.Staggered {
			offset++
		}
		return p.period, offset
	case KindBuckets:
		return p.width, p.buckets
	case KindLeases:
		return p.period, int64(lease)
	default:
		return p.period, 0
	}
}

// LuaReceipt returns the number that the script calls c: what it has to know of a receipt to give back.
func (p *Plan) LuaReceipt(r headgate.Receipt) int64 {
	if p.kind == KindLeases {
		return r.Units
	}
	return r.At
}

// LuaGiveBack returns what a refund on a state of another limit needs: an algorithm of its kind, and the numbers that the
// script calls a and b.
func (s State) LuaGiveBack(key string) (algorithm headgate.Algorithm, a, b int64) {
	p := s.plan()
	switch p.kind {
	case KindWindow:
		if b = s.Offset(key); p.head&headStaggered != 0 {
			b++
		}
		return headgate.FixedWindow, p.period, b
	case KindWindows:
		return headgate.SlidingWindow, p.period, 0
	case KindBuckets:
		return headgate.SlidingBuckets, p.width, p.buckets
	case KindLog:
		return headgate.SlidingLog, p.period, 0
	default:
		return headgate.TokenBucket, p.rate.units, p.rate.micros
	}
}

// Found reads a state as a script found it, which may be one of another limit. It appends to s, which may be nil. ok is
// false if no script can have written that.
func (p *Plan) Found(packed string, s State) (found State, ok bool) {
	r := luaReader{rest: packed}
	if packed == "" {
		return s, true
	}
	if p.kind == KindLeases {
		s = append(s, r.number(7))
		for r.ok() && r.rest != "" {
			s = append(s, r.number(7), r.number(3), 0)
		}
		return s, r.ok()
	}
	switch r.number(1) {
	case 'b':
		s = r.bucket(s, 2, 5, 3)
	case 'B':
		s = r.bucket(s, 6, 6, 6)
	case 'w':
		s = append(s, headFor(KindWindow, r.number(6)), r.time(), r.number(6))
	case 'v':
		s = append(s, headFor(KindWindow, r.number(6))|headStaggered, r.time(), r.number(6))
	case 's':
		s = append(s, headFor(KindWindows, r.number(6)), r.time(), 0, r.number(5))
		s[windowsCurrent], s[windowsPrevious] = s[windowsPrevious]>>20, s[windowsPrevious]&(1<<20-1)
	case 'S':
		s = append(s, headFor(KindWindows, r.number(6)), r.time(), r.number(6), r.number(6))
	case 'r':
		bytes := int(r.number(1))
		s = append(s, headFor(KindBuckets, r.number(6)), r.time())
		for r.ok() && r.rest != "" {
			s = append(s, r.number(max(bytes, 1)))
		}
		return s, r.ok() && len(s) > ringCounts && s[headWord]&headNumber > 0
	case 'l':
		s = append(s, headFor(KindLog, r.number(6)), r.number(3), r.time(), logEntries)
		for r.ok() && r.rest != "" {
			s = append(s, r.time(), r.number(3))
		}
		return s, r.ok() && s.sums()
	default:
		return s, false
	}
	return s, r.ok() && r.rest == "" && s[headWord]&headNumber > 0
}

func headFor(k Kind, number int64) int64 { return int64(k+1)<<headKind | number }

// bucket reads a bucket whose numbers have so many bytes: its rate, its time, the time since the anchor, and units.
func (r *luaReader) bucket(s State, rateUnits, rateMicros, units int) State {
	head, micros := headFor(KindBucket, r.number(rateUnits)), r.number(rateMicros)
	last, since := r.time(), r.number(rateMicros)
	if micros == 0 {
		r.short = true
	}
	return append(s, head, micros, last-since, r.number(units), last)
}

// sums tells whether the entries of a log have as many units as it says.
func (s State) sums() bool {
	units := s[logUnits]
	for i := logEntries; i < len(s); i += 2 {
		units -= s[i+1]
	}
	return units == 0
}

// time reads a time. Text that somebody else wrote reads as one that never comes.
func (r *luaReader) time() int64 {
	t := r.number(7)
	if t >= forever {
		r.short = true
	}
	return t
}

// A luaReader reads big-endian numbers.
type luaReader struct {
	rest  string
	short bool
}

func (r *luaReader) ok() bool { return !r.short }

func (r *luaReader) number(bytes int) int64 {
	if len(r.rest) < bytes {
		r.short = true
		return 0
	}
	var n int64
	for i := range bytes {
		n = n<<8 | int64(r.rest[i])
	}
	r.rest = r.rest[bytes:]
	return n
}
