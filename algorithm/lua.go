package algorithm

import (
	"embed"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

//go:embed *.lua
var luaFiles embed.FS

// luaIncludes are the names of the Lua files that the script of an algorithm includes besides its own.
type luaIncludes struct {
	shared []string // files that several algorithms use, in order; they come before the algorithm's own file
	give   string   // gives units back; "" if no file is needed for this
	room   string   // computes the remaining units for grants; "" if the algorithm is not Grantable
}

// luaName returns the name of an algorithm's file and of the function in it.
func luaName(a headgate.Algorithm) string { return strings.ReplaceAll(a.String(), "-", "") }

// Lua returns the steps of an algorithm as a Redis script, which makes the same decisions. take.lua describes its
// arguments and its reply; [Plan.DecodeState] reads the state in the reply. The script cannot give units back: for
// this, LuaGive returns a longer script.
func Lua(a headgate.Algorithm) string { return luaScript(a, "take") }

// LuaGive returns the script of Lua, extended so that it can also give units back.
func LuaGive(a headgate.Algorithm) string { return luaScript(a, "take", all[a].lua().give) }

// LuaGrant returns a Redis script that grants units of several keys, as [Plan.Grant] does, and gives them back.
// grant.lua describes its arguments and its reply. It returns "" for an algorithm that is not [Grantable].
func LuaGrant(a headgate.Algorithm) string {
	if !Grantable(a) {
		return ""
	}
	return luaScript(a, "grant", all[a].lua().give, all[a].lua().room)
}

// luaScript returns a script that ends with the file named main, which calls the step of an algorithm. extra names more
// files to include; empty names are ignored.
func luaScript(a headgate.Algorithm, main string, extra ...string) string {
	names := append([]string{"clock", "convert"}, all[a].lua().shared...)
	names = append(names, luaName(a))
	for _, name := range extra {
		if name != "" {
			names = append(names, name)
		}
	}
	return joinLua(names...) + "local step = " + luaName(a) + "\n" + joinLua(main)
}

// LuaAll returns the script that takes units of several keys, all or none. The keys may have different algorithms.
// takeall.lua describes its arguments and its reply.
func LuaAll() string {
	names := []string{"clock", "convert"}
	steps := make([]string, len(all))
	for a := range all {
		for _, name := range append(all[a].lua().shared, luaName(headgate.Algorithm(a))) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		steps[a] = luaName(headgate.Algorithm(a))
	}
	return joinLua(names...) + "local steps = { [0] = " + strings.Join(steps, ", ") + " }\n" + joinLua("takeall")
}

// joinLua concatenates files without their comment lines.
func joinLua(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := luaFiles.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // impossible: the file is embedded
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "--") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// LuaArgs returns the script's arguments a and b: the settings of the plan that the script needs besides the capacity.
// offset is how far the key's clock is behind, as [Plan.Offset] returns it. lease is the ID of the slot to take.
func (p *Plan) LuaArgs(offset int64, lease uint64) (a, b int64) {
	return p.steps.luaArgs(p, offset, lease)
}

// LuaReceipt returns the script's argument c: the part of a receipt that it needs to give back.
func (p *Plan) LuaReceipt(r headgate.Receipt) int64 {
	if p.kind == KindLeases {
		return r.Units
	}
	return r.At
}

// LuaGiveBack returns the arguments for a refund to a state that another limit has written: an algorithm of the state's
// kind, and the script's arguments a and b.
func (s State) LuaGiveBack(key string) (algorithm headgate.Algorithm, a, b int64) {
	p := s.plan()
	a, b = p.steps.luaArgs(&p, s.Offset(key), 0)
	return p.limit.Algorithm, a, b
}

// DecodeState decodes the state in a script's reply. Another limit than the plan's may have written it. The first byte
// says which layout the state has. DecodeState appends to s, which may be nil. ok is false if no script can have
// written the state.
func (p *Plan) DecodeState(packed string, s State) (found State, ok bool) {
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
	case 'b': // bucket with small numbers
		s = r.bucket(s, 2, 5, 3)
	case 'B': // bucket with large numbers
		s = r.bucket(s, 6, 6, 6)
	case 'w': // fixed-window
		s = append(s, headFor(KindFixedWindow, r.number(6)), r.time(), r.number(6))
	case 'v': // staggered fixed-window
		s = append(s, headFor(KindFixedWindow, r.number(6))|staggeredBit, r.time(), r.number(6))
	case 's': // sliding-window with small counts: both are in one number, the current one above the lowest 20 bits
		s = append(s, headFor(KindSlidingWindow, r.number(6)), r.time())
		counts := r.number(5)
		s = append(s, counts>>20, counts&(1<<20-1))
	case 'S': // sliding-window with large counts
		s = append(s, headFor(KindSlidingWindow, r.number(6)), r.time(), r.number(6), r.number(6))
	case 'r': // sliding-buckets
		bytes := int(r.number(1))
		s = append(s, headFor(KindSlidingBuckets, r.number(6)), r.time())
		for r.ok() && r.rest != "" {
			s = append(s, r.number(max(bytes, 1)))
		}
		return s, r.ok() && len(s) > ringCounts && s[headWord]&numberMask > 0
	case 'l': // sliding-log
		s = append(s, headFor(KindSlidingLog, r.number(6)), r.number(3), r.time(), logEntries)
		for r.ok() && r.rest != "" {
			s = append(s, r.time(), r.number(3))
		}
		return s, r.ok() && s.hasLogSum()
	case 'c': // counters
		s = r.counters(s)
	default:
		return s, false
	}
	return s, r.ok() && r.rest == "" && s[headWord]&numberMask > 0
}

func headFor(k Kind, number int64) int64 { return int64(k+1)<<kindShift | number }

// bucket reads a bucket: its rate, latest time, time since the anchor, and units. The parameters are the sizes in bytes
// of the rate's units, the rate's microseconds, and the units.
func (r *luaReader) bucket(s State, rateUnits, rateMicros, units int) State {
	head, micros := headFor(KindBucket, r.number(rateUnits)), r.number(rateMicros)
	last, sinceAnchor := r.time(), r.number(rateMicros)
	if micros == 0 {
		r.failed = true
	}
	return append(s, head, micros, last-sinceAnchor, r.number(units), last)
}

// hasLogSum reports whether the units of a log's entries add up to the sum that it stores.
func (s State) hasLogSum() bool {
	units := s[logUnits]
	for i := logEntries; i < len(s); i += 2 {
		units -= s[i+1]
	}
	return units == 0
}

// time reads a time. If another program wrote the value, as text for example, it is usually too large to be a time.
func (r *luaReader) time() int64 {
	t := r.number(7)
	if t >= forever {
		r.failed = true
	}
	return t
}

// A luaReader reads big-endian numbers.
type luaReader struct {
	rest   string
	failed bool // the input is too short, or is not a state
}

func (r *luaReader) ok() bool { return !r.failed }

func (r *luaReader) number(bytes int) int64 {
	if len(r.rest) < bytes {
		r.failed = true
		return 0
	}
	var n int64
	for i := range bytes {
		n = n<<8 | int64(r.rest[i])
	}
	r.rest = r.rest[bytes:]
	return n
}
