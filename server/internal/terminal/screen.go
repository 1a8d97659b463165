// Package terminal writes colored text to a terminal, and draws charts that are redrawn in place.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A Style is a text style of the terminal. Its value has the parameters of the escape sequence (SGR).
type Style string

// The styles.
const (
	Bold       Style = "1"
	Dim        Style = "2"
	Green      Style = "32"
	Red        Style = "31"
	Cyan       Style = "36"
	Amber      Style = "33"
	GreenOnRed Style = "32;41" // for a partial block that shows both colors
)

// A Screen writes lines, and frames that replace the previous frame if Live is set.
type Screen struct {
	// W receives the text.
	W io.Writer
	// Live means that W supports colors and redrawing.
	Live bool

	drawn int // number of lines of the previous frame; 0 if it cannot be redrawn
}

// CanRedraw reports whether w is a terminal that supports colors and redrawing, and the environment variables do not
// disable them (NO_COLOR, TERM=dumb).
func CanRedraw(w io.Writer, environ []string) bool {
	for _, pair := range environ {
		if name, value, _ := strings.Cut(pair, "="); name == "NO_COLOR" && value != "" || pair == "TERM=dumb" {
			return false
		}
	}
	return IsCharDevice(w)
}

// IsCharDevice reports whether w is a terminal or another character device.
func IsCharDevice(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Paint returns the text in a style, if the screen supports it.
func (s *Screen) Paint(style Style, text string) string {
	if !s.Live || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Line writes a permanent line.
func (s *Screen) Line(text string) {
	s.drawn = 0
	fmt.Fprintln(s.W, text)
}

// Title starts a section.
func (s *Screen) Title(text string) {
	s.Line("")
	s.Line(s.Paint(Bold, text))
	s.Line("")
}

// Draw replaces the previous frame, in one write so that it does not flicker. It needs a live screen.
func (s *Screen) Draw(frame []string) {
	var b strings.Builder
	b.WriteString("\r") // overwrites the ^C that a terminal may have echoed
	if s.drawn > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(s.drawn) + "A")
	}
	for _, line := range frame {
		b.WriteString(line + "\x1b[K\n")
	}
	s.drawn = len(frame)
	fmt.Fprint(s.W, b.String())
}

// HideCursor hides the cursor and disables line wrapping until the returned function is called.
func (s *Screen) HideCursor() (restore func()) {
	if !s.Live {
		return func() {}
	}
	fmt.Fprint(s.W, "\x1b[?25l\x1b[?7l")
	return func() { fmt.Fprint(s.W, "\x1b[?7h\x1b[?25h") }
}

// ClearEcho clears text that the terminal has echoed on the line below.
func (s *Screen) ClearEcho() {
	if s.Live {
		fmt.Fprint(s.W, "\r\x1b[K")
	}
}
