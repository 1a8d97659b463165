package limittest

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
)

func TestParseScript(t *testing.T) {
	cases, err := parseScript("x.txt", `
# a comment
case one: with a colon # and a comment
limit 10/s
limit hour = 100/h
at 300ms take alice 6 as a -> allow remaining=4 retry=0s
at 1s-1us give alice 2 of a
at -5s takeall alice 1 and a/b 2 under hour as b -> allow and deny retry=never
at 0s give a/b 2 of b under hour -> error=invalid-check
at 0s charge alice 3 -> error=unsupported

case two
limit 10/m
at 0s peek alice -> allow
at 0s reset alice
limit 20/m
at 0s peek alice -> allow
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 2 || cases[0].name != "one: with a colon" || len(cases[0].steps) != 5 || len(cases[1].steps) != 3 {
		t.Fatalf("got %+v", cases)
	}
	all := cases[0].steps[2]
	if all.at != -5*time.Second || all.verb != "takeall" || all.pos != "x.txt:8" || len(all.checks) != 2 || len(all.wants) != 2 {
		t.Errorf("got %+v", all)
	}
	want := scriptCheck{Check: headgate.Check{Key: "a/b", Limit: headgate.PerHour(100), Cost: 2}, saveAs: "b"}
	if all.checks[1] != want {
		t.Errorf("got %+v, want %+v", all.checks[1], want)
	}
	if at := cases[0].steps[1].at; at != time.Second-time.Microsecond {
		t.Errorf("1s-1us: got %v", at)
	}
	second := cases[1].steps
	if a, b := second[0].checks[0].Limit.Count, second[2].checks[0].Limit.Count; a != 10 || b != 20 {
		t.Errorf("a limit that changes: got %d, then %d", a, b)
	}
}

func TestParseScriptSaysWhatIsWrong(t *testing.T) {
	const head = "case x\nlimit 10/s\n"
	for _, test := range []struct{ text, want string }{
		{"", "f.txt: no case"},
		{"limit 10/s", `f.txt:1: "limit" before the first case`},
		{"case", "f.txt:1: case without a name"},
		{"case x\ncase x", `f.txt:2: second case with the name "x"`},
		{head + "when 0s take a 1 -> allow", `f.txt:3: unknown word "when"`},
		{"case x\nlimit 10/fortnight", "f.txt:2: invalid limit"},
		{"case x\nlimit = 10/s", "f.txt:2: no name before ="},
		{"case x\nat 0s take a 1 -> allow", "f.txt:2: no limit yet"},
		{head + "at noon take a 1 -> allow", `f.txt:3: time "noon"`},
		{head + "at", `f.txt:3: time ""`},
		{head + "at 1s+ take a 1 -> allow", `f.txt:3: time "1s+"`},
		{head + "at 0s grab a 1 -> allow", `f.txt:3: unknown verb "grab"`},
		{head + "at 0s take -> allow", "f.txt:3: take without a key"},
		{head + "at 0s take a -> allow", `f.txt:3: cost ""`},
		{head + "at 0s take a one -> allow", `f.txt:3: cost "one"`},
		{head + "at 0s take a 1 2 -> allow", `f.txt:3: unexpected "2"`},
		{head + "at 0s take a 1 under y -> allow", `f.txt:3: unknown limit "y"`},
		{head + "at 0s take a 1 as -> allow", `f.txt:3: "as" without the name of a receipt`},
		{head + "at 0s take a 1 and b 1 -> allow and allow", `f.txt:3: unexpected "and"`},
		{head + "at 0s peek a 1 -> allow", `f.txt:3: unexpected "1"`},
		{head + "at 0s reset a b", `f.txt:3: unexpected "b"`},
		{head + "at 0s give a 1", "f.txt:3: give without a receipt"},
		{head + "at 0s give a 1 of r", `f.txt:3: unknown receipt "r"`},
		{head + "at 0s take a 1 as r -> allow\nat 0s give a 1 of r -> allow", "f.txt:4: give has no decision"},
		{head + "at 0s take a 1", `f.txt:3: take without "-> OUTCOME"`},
		{head + "at 0s take a 1 -> ", `f.txt:3: unexpected "->"`},
		{head + "at 0s take a 1 -> maybe", `f.txt:3: unknown outcome "maybe"`},
		{head + "at 0s take a 1 -> allow left=1", `f.txt:3: unknown field "left=1"`},
		{head + "at 0s take a 1 -> allow remaining=x", `f.txt:3: remaining "x"`},
		{head + "at 0s take a 1 -> allow reset=never", `f.txt:3: time "never"`},
		{head + "at 0s take a 1 -> allow and allow", "f.txt:3: 2 outcomes for 1 checks"},
		{head + "at 0s takeall a 1 and b 1 -> allow", "f.txt:3: 1 outcomes for 2 checks"},
		{head + "at 0s take a 1 -> error=oops", `f.txt:3: unknown error "oops"`},
		{head + "at 0s take a 1 -> error=unsupported retry=1s", `f.txt:3: unexpected "retry=1s" after an error`},
	} {
		_, err := parseScript("f.txt", test.text)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

// TestReplaySaysWhatDiffers replays expectations that are wrong.
func TestReplaySaysWhatDiffers(t *testing.T) {
	for _, test := range []struct{ step, want string }{
		{"at 0s take alice 6 -> deny", "got allow, want deny"},
		{"at 0s take alice 6 -> allow remaining=5", "got remaining=4, want 5"},
		{"at 0s take alice 11 -> deny retry=1s", "got retry=never, want 1s"},
		{"at 0s take alice 6 -> allow reset=1s", "got reset=600ms, want 1s"},
		{"at 0s take alice 6 -> allow units=5", "got units=6, want 5"},
		{"at 0s take alice 6 -> error=unsupported", "got error <nil>, want unsupported"},
		{"at 0s takeall alice 6 and bob 1 -> allow and deny", "got allow, want deny"},
		{"at 0s take alice -1 -> allow", "invalid check: Cost -1"},
		{"at 0s reset alice -> error=invalid-check", "got error <nil>"},
	} {
		cases, err := parseScript("f.txt", "case x\nlimit 10/s\n"+test.step)
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{TB: t}
		clock := NewClock()
		tr := &trial{TB: r, Clock: clock, limiter: stepstore.New(clock.Now)}
		tr.replay(cases[0])
		if got := strings.Join(r.failures, "\n"); !strings.Contains(got, test.want) || !strings.Contains(got, "f.txt:3") {
			t.Errorf("%s: got %q, want %q", test.step, got, test.want)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add("case x\nlimit 10/s\nat 0s take a 1 as r -> allow remaining=9\nat 1s-1us give a 1 of r # why\n")
	f.Add("case x\nlimit h = 1/h\nat 0s takeall a 1 under h and b 0 under h -> allow and deny retry=never\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseScript("f.txt", text); err != nil && !strings.HasPrefix(err.Error(), "f.txt:") {
			t.Errorf("error without a place: %v", err)
		}
	})
}
