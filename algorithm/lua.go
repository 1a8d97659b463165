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
	shared []string // shared files, included in front of the own file of the algorithm, in order
	give   string   // included for refunds, "" for none
	room   string   // included for grants, "" if the algorithm is not Grantable
}

// luaName returns the name of an algorithm's file and of the function in it.
func luaName(a headgate.Algorithm) string { return strings.ReplaceAll(a.String(), "-", "") }

// Lua returns the steps of an algorithm as a Redis script, which makes the same decisions. take.lua describes its
// arguments and its reply; [Plan.DecodeState] reads the state in the reply. The script cannot give units back: see
// LuaGive.
func Lua(a headgate.Algorithm) string { return luaCall(a, "take") }

// LuaGive returns the same script as Lua, except that it can also give units back.
func LuaGive(a headgate.Algorithm) string { return luaCall(a, "take", all[a].lua().give) }

// LuaGrant returns a Redis script that grants units of several keys, as [Plan.Grant] does, and gives them back.
// grant.lua describes its arguments and its reply. It returns "" for an algorithm that is not [Grantable].
func LuaGrant(a headgate.Algorithm) string {
	if !Grantable(a) {
		return ""
	}
	return luaCall(a, "grant", all[a].lua().give, all[a].lua().room)
}

// luaCall returns the script that runs the file named call with the step of an algorithm. extra names more files to
// include; empty names are ignored.
func luaCall(a headgate.Algorithm, call string, extra ...string) string {
	names := append([]string{"clock", "carry"}, all[a].lua().shared...)
	names = append(names, luaName(a))
	for _, name := range extra {
		if name != "" {
			names = append(names, name)
		}
	}
	return lua(names...) + "local step = " + luaName(a) + "\n" + lua(call)
}

// LuaAll returns the script that takes on several keys of any algorithms, all or none. See takeall.lua.
func LuaAll() string {
	names := []string{"clock", "carry"}
	steps := make([]string, len(all))
	for a := range all {
		for _, name := range append(all[a].lua().shared, luaName(headgate.Algorithm(a))) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		steps[a] = luaName(headgate.Algorithm(a))
	}
	return lua(names...) + "local steps = { [0] = " + strings.Join(steps, ", ") + " }\n" + lua("takeall")
}

// lua concatenates files without their comment lines.
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

// LuaArgs returns the arguments a and b of the script: the settings of the plan that it needs besides the capacity.
// offset is the offset of the key's clock (see [Plan.Offset]). lease is the ID of the slot that may be taken.
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

// LuaGiveBack returns the arguments for a refund on a state of another limit: an algorithm of the state's kind, and the
// script's arguments a and b.
func (s State) LuaGiveBack(key string) (algorithm headgate.Algorithm, a, b int64) {
	p := s.plan()
	a, b = p.steps.luaArgs(&p, s.Offset(key), 0)
	return p.limit.Algorithm, a, b
}

// DecodeState decodes the state in a script's reply, which another limit may have written. It appends to s, which may
// be nil. ok is false if no script can have written it.
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
	case 'b':
		s = r.bucket(s, 2, 5, 3)
	case 'B':
		s = r.bucket(s, 6, 6, 6)
	case 'w':
		s = append(s, headFor(KindWindow, r.number(6)), r.time(), r.number(6))
	case 'v':
		s = append(s, headFor(KindWindow, r.number(6))|staggeredBit, r.time(), r.number(6))
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
		return s, r.ok() && len(s) > ringCounts && s[headWord]&numberMask > 0
	case 'l':
		s = append(s, headFor(KindLog, r.number(6)), r.number(3), r.time(), logEntries)
		for r.ok() && r.rest != "" {
			s = append(s, r.time(), r.number(3))
		}
		return s, r.ok() && s.hasLogSum()
	case 'c':
		s = r.counters(s)
	default:
		return s, false
	}
	return s, r.ok() && r.rest == "" && s[headWord]&numberMask > 0
}

func headFor(k Kind, number int64) int64 { return int64(k+1)<<kindShift | number }

// bucket reads a bucket: its rate, latest time, time since the anchor, and units. The parameters are sizes in bytes.
func (r *luaReader) bucket(s State, rateUnits, rateMicros, units int) State {
	head, micros := headFor(KindBucket, r.number(rateUnits)), r.number(rateMicros)
	last, since := r.time(), r.number(rateMicros)
	if micros == 0 {
		r.failed = true
	}
	return append(s, head, micros, last-since, r.number(units), last)
}

// hasLogSum reports whether the units of a log's entries add up to the sum that it stores.
func (s State) hasLogSum() bool {
	units := s[logUnits]
	for i := logEntries; i < len(s); i += 2 {
		units -= s[i+1]
	}
	return units == 0
}

// time reads a time. A value written by another program, such as text, is beyond the range of times.
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
