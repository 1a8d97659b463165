package httplimit

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

var seeds = []string{
	"", "per-client", "a/b", `say "hi"`, `back\slash`, "line\r\nX-Evil: 1", "tab\t", "\x00\x7f", "ümlaut", "\xff\xfe", "a;q=1,b", "<script>&",
	"\u2028",
}

// sfString matches a string of RFC 9651, section 3.3.3.
var sfString = regexp.MustCompile(`^"([ !#-\[\]-~]|\\["\\])*"$`)

// FuzzPolicyNameIsOneString checks that any rule id becomes one string in the RateLimit header, with the same value if
// it is printable ASCII.
func FuzzPolicyNameIsOneString(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := string(appendName(nil, &match.Result{Rule: &rules.Rule{ID: s}}, 0, false))
		if !sfString.MatchString(text) {
			t.Fatalf("%q became %s, want one string", s, text)
		}
		want := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '_'
			}
			return r
		}, s)
		// Such a string is valid JSON too, and problem documents use it as such.
		var got string
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s as JSON: %v", text, err)
		}
		if isASCII(s) && got != want {
			t.Errorf("%q came back as %q, want %q", s, got, want)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// FuzzDetailIsJSON checks that any detail text is encoded as JSON and comes back unchanged.
func FuzzDetailIsJSON(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := problem{status: 400, kind: problemPlain, title: "Bad Request", detail: s}
		text := p.append(nil, nil, 7)
		var got struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if want := strings.ToValidUTF8(s, "�") + " Try again in 7 s."; got.Detail != want && utf8.ValidString(s) {
			t.Errorf("got %q, want %q", got.Detail, want)
		}
		if strings.ContainsAny(string(text), "<>&") {
			t.Errorf("%s has HTML characters", text)
		}
	})
}
