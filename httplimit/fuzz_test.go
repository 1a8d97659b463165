package httplimit

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

var seeds = []string{
	"", "per-client", "a/b", `say "hi"`, `back\slash`, "line\r\nX-Evil: 1", "tab\t", "\x00\x7f", "ümlaut", "\xff\xfe", "a;q=1,b", "<script>&",
	"\u2028",
}

// FuzzNameIsOneString says that whatever the name of a policy, it stays one string and comes back as it was, if it can.
func FuzzNameIsOneString(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := string(appendName(nil, &match.Result{Rule: &rules.Rule{ID: s}}, 0, false))
		list, err := httpsfv.UnmarshalList([]string{text + `;q=1`})
		if err != nil || len(list) != 1 {
			t.Fatalf("%q became %s: %d members, %v, want one", s, text, len(list), err)
		}
		want := strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '_'
			}
			return r
		}, s)
		got, _ := list[0].(httpsfv.Item).Value.(string)
		if isASCII(s) && got != want {
			t.Errorf("%q came back as %q, want %q", s, got, want)
		}
		// The names of problems are written in the same way, as strings of JSON.
		var again string
		if err := json.Unmarshal([]byte(text), &again); err != nil || again != got {
			t.Errorf("%s as JSON is %q, %v, want %q", text, again, err, got)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// FuzzDetailIsJSON says that whatever a client sends, what we say of it is JSON and says the same.
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
			t.Errorf("%s has marks of HTML", text)
		}
	})
}
