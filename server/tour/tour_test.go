package tour

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/server/internal/terminal"
)

// newDemo returns a small demonstration and what it writes to.
func newDemo(live bool) (*demo, *strings.Builder) {
	var out strings.Builder
	return &demo{
		Screen: &terminal.Screen{W: &out, Live: live}, flood: 300 * time.Millisecond, keys: 1000, measure: 10 * time.Millisecond,
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
				`(?s)A noisy neighbour.*noisy asked \d+ times.*One burst, every algorithm.*Worked examples.*Decisions.*Now yours.*perAddress\.Allow`,
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

func TestNegativeTimeIsRefused(t *testing.T) {
	var out strings.Builder
	err := Run(t.Context(), Options{Out: &out, Flood: -time.Second})
	if err == nil || !strings.Contains(err.Error(), "want a time such as 6s") {
		t.Errorf("got error %v, want one that shows a time", err)
	}
}

func TestInterruptedBeforeTheStartEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := Run(ctx, Options{Out: &out}); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
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
