package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The formats of a log.
const (
	LogJSON = "json"
	LogText = "text"
)

// NewLogger returns a logger that writes lines to w, as JSON or text, from a level on: debug, info, warn or error. A
// line has at most about 1000 bytes: longer texts are cut.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	from, err := ParseLevel(level)
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: from}
	switch format {
	case LogJSON:
		return slog.New(shortLines{Handler: slog.NewJSONHandler(w, options)}), nil
	case LogText:
		return slog.New(shortLines{Handler: slog.NewTextHandler(w, options)}), nil
	default:
		return nil, fmt.Errorf("log format %q: want json or text", format)
	}
}

// ParseLevel parses debug, info, warn or error.
func ParseLevel(text string) (slog.Level, error) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if text == strings.ToLower(l.String()) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("log level %q: want debug, info, warn or error", text)
}
