package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// newDemo returns a small demonstration and what it writes to.
func newDemo(live bool) (*demo, *strings.Builder) {
	var out strings.Builder
	return &demo{
		screen: &screen{w: &out, live: live}, flood: 300 * time.Millisecond, keys: 1000, measure: 10 * time.Millisecond,
	}, &out
}

var escapes = regexp.MustCompile("\x1b\\[[?0-9;]*[A-Za-z]|\r")

// wants fails the test for each pattern that is not in the text.
func wants(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(text) {
			t.Errorf("got no %q in\n%s", p, text)
		}
	}
}

func TestTheDemonstrationShowsAllScenesInOrder(t *testing.T) {
	for name, live := range map[string]bool{"plain": false, "live": true} {
		t.Run(name, func(t *testing.T) {
			d, out := newDemo(live)
			if err := d.show(t.Context()); err != nil {
				t.Fatal(err)
			}
			wants(t, escapes.ReplaceAllString(out.String(), ""),
				`(?s)A noisy neighbour.*noisy asked \d+ times.*One burst, every algorithm.*Decisions.*Now yours.*perAddress\.Allow`,
				`alice, bob and carol asked \d+ times and did not notice: 0 denied\.`,
				`  [\d.]+ million decisions/s on \d+ cores, over 1,000 keys, \d+ bytes a key\n`)
		})
	}
}

func TestNothingIsWiderThan80Columns(t *testing.T) {
	for name, live := range map[string]bool{"plain": false, "live": true} {
		d, out := newDemo(live)
		if err := d.show(t.Context()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(escapes.ReplaceAllString(out.String(), "")) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: got %d columns: %s", name, n, line)
			}
		}
	}
	for line := range strings.Lines(usage) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("usage: got %d columns: %s", n, line)
		}
	}
}

func TestAScreenThatIsNotLiveGetsNoEscapes(t *testing.T) {
	d, out := newDemo(false)
	if err := d.show(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := escapes.FindString(out.String()); found != "" {
		t.Errorf("got %q", found)
	}
}

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{args: []string{"-h"}, stdout: "^Usage: "},
		{args: []string{"--help"}, stdout: "-for TIME"},
		{args: []string{"-for", "0s"}, code: exitUsage, stderr: "-for 0s: want"},
		{args: []string{"-for", "-1s"}, code: exitUsage, stderr: "-for -1s: want"},
		{args: []string{"-for", "soon"}, code: exitUsage, stderr: "(?s)soon.*Usage: "},
		{args: []string{"-what"}, code: exitUsage, stderr: "(?s)-what.*Usage: "},
		{args: []string{"6s"}, code: exitUsage, stderr: `unexpected "6s"`},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(t.Context(), tt.args, &stdout, &stderr, false); code != tt.code {
				t.Errorf("got exit code %d, want %d", code, tt.code)
			}
			for _, stream := range []struct{ got, want string }{{stdout.String(), tt.stdout}, {stderr.String(), tt.stderr}} {
				if stream.want == "" && stream.got != "" {
					t.Errorf("got %q, want nothing", stream.got)
				}
				wants(t, stream.got, stream.want)
			}
		})
	}
}

func TestWhatWasInterruptedBeforeItBeganEndsWith130(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	if code := run(ctx, nil, &stdout, &stderr, false); code != exitInterrupted {
		t.Errorf("got exit code %d, want %d", code, exitInterrupted)
	}
	if stderr.Len() > 0 {
		t.Errorf("got %q on stderr, want nothing", stderr.String())
	}
}

func TestTheLinesToTryAreThoseOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(readme)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	for _, line := range tryIt {
		if !slices.Contains(lines, strings.TrimSpace(line)) {
			t.Errorf("README.md has no line %q", line)
		}
	}
}
