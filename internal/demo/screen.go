package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// A style is a text style of the terminal, as the parameters of its SGR sequence.
type style string

const (
	bold  style = "1"
	dim   style = "2"
	green style = "32"
	red   style = "31"
	cyan  style = "36"
	amber style = "33"
	mixed style = "32;41" // green on red: a block shows both
)

// A screen shows the demonstration. Nothing on it is wider than 80 columns.
type screen struct {
	w     io.Writer
	live  bool // it supports colours and redrawing
	drawn int  // number of lines of the frame that can be redrawn
}

var tabs = strings.NewReplacer("\t", "    ")

// isTerminal reports whether f is a terminal that supports redrawing and whose user wants colours.
func isTerminal(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// paint returns the text in a style, if the screen supports it.
func (s *screen) paint(as style, text string) string {
	if !s.live || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// line writes a permanent line.
func (s *screen) line(text string) {
	s.drawn = 0
	fmt.Fprintln(s.w, text)
}

// title starts a scene.
func (s *screen) title(text string) {
	s.line("")
	s.line(s.paint(bold, text))
	s.line("")
}

// draw replaces the previous frame, in one write so that it does not flicker. It needs a live screen.
func (s *screen) draw(frame []string) {
	var b strings.Builder
	b.WriteString("\r") // over the ^C that a terminal may have echoed
	if s.drawn > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(s.drawn) + "A")
	}
	for _, line := range frame {
		b.WriteString(line + "\x1b[K\n")
	}
	s.drawn = len(frame)
	fmt.Fprint(s.w, b.String())
}

// still hides the cursor and disables line wrapping until the returned function is called.
func (s *screen) still() (restore func()) {
	if !s.live {
		return func() {}
	}
	fmt.Fprint(s.w, "\x1b[?25l\x1b[?7l")
	return func() { fmt.Fprint(s.w, "\x1b[?7h\x1b[?25h") }
}

// wipe clears text that the terminal has echoed on the line below.
func (s *screen) wipe() {
	if s.live {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}
