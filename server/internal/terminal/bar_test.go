package terminal

import (
	"bytes"
	"math"
	"os"
	"testing"
)

func TestBarFillsItsShareInEighths(t *testing.T) {
	for _, tt := range []struct {
		share float64
		want  string
	}{
		{0, "    "}, {1, "████"}, {2, "████"}, {-1, "    "}, {0.5, "██  "}, {1.0 / 32, "▏   "}, {0.65625, "██▋ "}, {math.NaN(), "    "},
	} {
		if got := Bar(tt.share, 4); got != tt.want {
			t.Errorf("%g: got %q, want %q", tt.share, got, tt.want)
		}
	}
}

func TestSparkShowsEveryValueThatIsNotZero(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{nil, ""},
		{[]float64{0, 0}, "  "},
		{[]float64{8, 0, 4, 0.001, 8}, "█ ▄▁█"},
	} {
		if got := Spark(tt.values); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.values, got, tt.want)
		}
	}
}

func TestOnlyCharacterDevicesAreTerminals(t *testing.T) {
	if CanRedraw(&bytes.Buffer{}, nil) {
		t.Error("got a buffer as a terminal")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if !CanRedraw(null, []string{"TERM=xterm", "NO_COLOR="}) {
		t.Error("got a character device as no terminal")
	}
	for _, pair := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if CanRedraw(null, []string{pair}) {
			t.Errorf("%s: got a terminal", pair)
		}
	}
}

func TestPlainScreenHasNoColours(t *testing.T) {
	var out bytes.Buffer
	s := &Screen{W: &out}
	s.Title(s.Paint(Bold, "x"))
	s.HideCursor()()
	s.ClearEcho()
	if got, want := out.String(), "\nx\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
