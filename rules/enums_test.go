package rules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

func TestFormattedValuesParse(t *testing.T) {
	for o := rules.OwnerClient; o <= rules.OwnerShared; o++ {
		if got, err := rules.ParseOwner(o.String()); got != o || err != nil {
			t.Errorf("%s: got %v, %v", o, got, err)
		}
	}
	for f := rules.FallbackIP; f <= rules.FallbackDeny; f++ {
		if got, err := rules.ParseFallback(f.String()); got != f || err != nil {
			t.Errorf("%s: got %v, %v", f, got, err)
		}
	}
	for c := rules.Exact; c <= rules.Local; c++ {
		if got, err := rules.ParseConsistency(c.String()); got != c || err != nil {
			t.Errorf("%s: got %v, %v", c, got, err)
		}
	}
	for u := rules.UnregisteredDefault; u <= rules.UnregisteredDeny; u++ {
		if got, err := rules.ParseUnregistered(u.String()); got != u || err != nil {
			t.Errorf("%s: got %v, %v", u, got, err)
		}
	}
	for p := headgate.Open; p <= headgate.Local; p++ {
		if got, err := rules.ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	for _, o := range []rules.OnLimit{{}, {Action: rules.Drop}, {Action: rules.Shadow}, {rules.Delay, 1500 * time.Millisecond}} {
		if got, err := rules.ParseOnLimit(o.String()); got != o || err != nil {
			t.Errorf("%s: got %v, %v", o, got, err)
		}
	}
	for _, d := range []time.Duration{time.Microsecond, time.Second, 90 * time.Minute, 24 * time.Hour, headgate.MaxPeriod} {
		if got, err := rules.ParseDuration(rules.FormatDuration(d)); got != d || err != nil {
			t.Errorf("%s, written %s: got %v, %v", d, rules.FormatDuration(d), got, err)
		}
		denials := rules.Denials{Count: 7, Within: d}
		if got, err := rules.ParseDenials(denials.String()); got != denials || err != nil {
			t.Errorf("%s: got %v, %v", denials, got, err)
		}
	}
}

func TestInvalidValuesAreRefused(t *testing.T) {
	for name, parse := range map[string]func(string) error{
		"owner":        func(s string) error { _, err := rules.ParseOwner(s); return err },
		"fallback":     func(s string) error { _, err := rules.ParseFallback(s); return err },
		"consistency":  func(s string) error { _, err := rules.ParseConsistency(s); return err },
		"unregistered": func(s string) error { _, err := rules.ParseUnregistered(s); return err },
		"on_failure":   func(s string) error { _, err := rules.ParsePolicy(s); return err },
		"on_limit":     func(s string) error { _, err := rules.ParseOnLimit(s); return err },
		"after":        func(s string) error { _, err := rules.ParseDenials(s); return err },
		"time":         func(s string) error { _, err := rules.ParseDuration(s); return err },
	} {
		for _, text := range []string{"", " ", "nonsense", "Exact", "by key", "by store", "delay", "delay 2s 3s", "5 denials", "-5 denials in 1m", "1s burst 3", "5", "s 1"} {
			err := parse(text)
			if !errors.Is(err, rules.ErrInvalid) {
				t.Errorf("%s: %q: got %v, want an error that wraps ErrInvalid", name, text, err)
				continue
			}
			if value, want := rules.Explain(err); value == "" || want == "" {
				t.Errorf("%s: %q: the error lacks the value or the description of a valid one: %v", name, text, err)
			}
		}
	}
}

// A text is refused, or formatted as an equivalent one.
func FuzzEnums(f *testing.F) {
	for _, text := range []string{"reject", "delay 2s", "drop", "shadow", " delay  1h30m ", "100 denials in 1m", "1 denial in 366d", "500ms", "7d", "1us"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := rules.ParseOnLimit(text); err == nil {
			if again, err := rules.ParseOnLimit(o.String()); err != nil || again != o {
				t.Errorf("%q is written %q, which is read as %v, %v", text, o, again, err)
			}
		}
		if d, err := rules.ParseDenials(text); err == nil {
			if again, err := rules.ParseDenials(d.String()); err != nil || again != d {
				t.Errorf("%q is written %q, which is read as %v, %v", text, d, again, err)
			}
		}
		if d, err := rules.ParseDuration(text); err == nil {
			if again, err := rules.ParseDuration(rules.FormatDuration(d)); err != nil || again != d {
				t.Errorf("%q is written %q, which is read as %v, %v", text, rules.FormatDuration(d), again, err)
			}
		}
	})
}
