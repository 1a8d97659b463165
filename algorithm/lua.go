package algorithm

import (
	"embed"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

//go:embed *.lua
var luaFiles embed.FS

// luaNeeds are the files that the script of an algorithm needs beside its own.
type luaNeeds struct {
	before []string // in order, in front of its own
	give   string   // to give back, "" for none
	room   string   // to grant, "" if the algorithm is not Grantable
}

// luaName returns the name of an algorithm's file and of the function in it.
func luaName(a headgate.Algorithm) string { return strings.ReplaceAll(a.String(), "-", "") }

// Lua returns the steps of an algorithm as a Redis script: its twin, which decides alike. What it is called with and
// what it answers is written in take.lua; [Plan.Found] reads the answer. It cannot give back: see LuaGive.
func Lua(a headgate.Algorithm) string { return luaCall(a, "take", "") }

// LuaGive returns the same script with what is needed to give back.
func LuaGive(a headgate.Algorithm) string { return luaCall(a, "take", all[a].lua().give) }

// LuaGrant returns the twin of [Plan.Grant]. What it is called with and what it answers is written in grant.lua. It is empty
// for an algorithm that is not [Grantable].
func LuaGrant(a headgate.Algorithm) string {
	if !Grantable(a) {
		return ""
	}
	return luaCall(a, "grant", all[a].lua().room)
}

// luaCall returns the script that makes the steps of an algorithm by the file named call.
func luaCall(a headgate.Algorithm, call, more string) string {
	names := append([]string{"clock", "carry"}, all[a].lua().before...)
	names = append(names, luaName(a))
	if more != "" {
		names = append(names, more)
	}
	return lua(names...) + "local step = " + luaName(a) + "\n" + lua(call)
}

// LuaAll returns the script that takes on several keys, whatever their algorithms, all or none. See takeall.lua.
func LuaAll() string {
	names := []string{"clock", "carry"}
	steps := make([]string, len(all))
	for a := range all {
		for _, name := range append(all[a].lua().before, luaName(headgate.Algorithm(a))) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		steps[a] = luaName(headgate.Algorithm(a))
	}
	return lua(names...) + "local steps = { [0] = " + strings.Join(steps, ", ") + " }\n" + lua("takeall")
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
	return p.steps.luaArgs(p, offset, lease)
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
	a, b = p.steps.luaArgs(&p, s.Offset(key), 0)
	return p.limit.Algorithm, a, b
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
	case 'c':
		s = r.counters(s)
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
