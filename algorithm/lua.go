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
	headgate.TokenBucket:    {"exact", "pair", "bucket", "tokenbucket"},
	headgate.LeakyBucket:    {"exact", "pair", "bucket", "leakybucket"},
	headgate.GCRA:           {"exact", "pair", "bucket", "gcra"},
	headgate.FixedWindow:    {"pair", "fixedwindow"},
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
	return lua("clock") + lua(names...) + lua(more...) + "local step = " + names[len(names)-1] + "\n" + lua(call)
}

// LuaAll returns the script that takes on several keys, whatever their algorithms, all or none. See takeall.lua.
func LuaAll() string {
	names := []string{"clock"}
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
// beside its capacity. offset is by how much the key's clock is behind, lease the name of a place that may be taken.
func (p *Plan) LuaArgs(offset int64, lease uint64) (a, b int64) {
	switch p.kind {
	case KindBucket:
		return p.rate.units, p.rate.micros
	case KindWindow:
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

// Found reads a state as a script found it. It appends to s, which may be nil. ok is false if the script cannot have
// written that.
func (p *Plan) Found(packed string, s State) (found State, ok bool) {
	r := luaReader{rest: packed}
	if packed == "" {
		return s, true
	}
	switch p.kind {
	case KindBucket, KindWindow:
		s = append(s, r.number(7))
		s = append(s, r.number(max(len(r.rest), 5)))
		return s, r.ok() && len(packed) <= 7+6
	case KindWindows:
		s = append(s, r.number(7), r.number(6), r.number(6))
	case KindBuckets:
		bytes := int(r.number(1))
		s = append(s, r.number(6), r.number(7))
		for r.ok() && r.rest != "" {
			s = append(s, r.number(max(bytes, 1)))
		}
		return s, r.ok() && len(s) > ringCounts && s[ringWidth] > 0
	case KindLog:
		s = append(s, r.number(3), r.number(7), logEntries)
		for r.ok() && r.rest != "" {
			s = append(s, r.number(7), r.number(3))
		}
		return s, r.ok() && s.sums()
	case KindLeases:
		s = append(s, r.number(7))
		for r.ok() && r.rest != "" {
			s = append(s, r.number(7), r.number(3), 0)
		}
	}
	return s, r.ok() && r.rest == ""
}

// sums tells whether the entries of a log have as many units as it says.
func (s State) sums() bool {
	units := s[logUnits]
	for i := logEntries; i < len(s); i += 2 {
		units -= s[i+1]
	}
	return units == 0
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
