package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// The formats of a log. LogAuto means text on a terminal, otherwise JSON. NewLogger does not accept it, so callers must
// choose one.
const (
	LogAuto = "auto"
	LogJSON = "json"
	LogText = "text"
)

// ComponentKey is the attribute with the component of a logger. The component may have a level of its own.
const ComponentKey = "component"

// Components are the components with a log level of their own.
var Components = []string{"admin", "fleet", "gateway", "rules", "service", "store"}

// NewLogger returns a logger that writes lines to w, as JSON or text. levels are the minimum levels in the format of
// ParseLevels. Long texts are cut, so that a line has at most about 1000 bytes.
func NewLogger(w io.Writer, format, levels string) (*slog.Logger, error) {
	parsed, err := ParseLevels(levels)
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: slog.LevelDebug} // componentLevels filters lines by level
	var lines slog.Handler
	switch format {
	case LogJSON:
		lines = slog.NewJSONHandler(w, options)
	case LogText:
		lines = slog.NewTextHandler(w, options)
	default:
		return nil, fmt.Errorf("log format %q: want json or text", format)
	}
	return slog.New(componentLevels{Handler: shortLines{Handler: lines}, level: parsed.Default, levels: parsed}), nil
}

// Levels are minimum levels of log lines.
type Levels struct {
	Default     slog.Level
	ByComponent map[string]slog.Level
}

// ParseLevels parses a default level, optionally with levels of components, such as "info,gateway=debug,store=warn".
// The levels are debug, info, warn and error. If there is no default level, it is info.
func ParseLevels(text string) (Levels, error) {
	l := Levels{Default: slog.LevelInfo, ByComponent: map[string]slog.Level{}}
	for i, part := range strings.Split(text, ",") {
		component, name, isComponent := strings.Cut(part, "=")
		if !isComponent {
			name = part
		}
		level, err := parseLevel(name)
		_, duplicate := l.ByComponent[component]
		switch {
		case err != nil:
			return l, err
		case !isComponent && i > 0:
			return l, fmt.Errorf("log level %q: want one default level, the first", text)
		case !isComponent:
			l.Default = level
		case !slices.Contains(Components, component) || duplicate:
			return l, fmt.Errorf("log level %q: want each component once, of %s", text, strings.Join(Components, ", "))
		default:
			l.ByComponent[component] = level
		}
	}
	return l, nil
}

// parseLevel parses debug, info, warn or error.
func parseLevel(text string) (slog.Level, error) {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if text == strings.ToLower(l.String()) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("log level %q: want debug, info, warn or error, also by component as in info,gateway=debug", text)
}

// componentLevels is a slog.Handler with a minimum level that depends on the attribute ComponentKey of the logger.
type componentLevels struct {
	slog.Handler
	level  slog.Level
	levels Levels
}

var _ slog.Handler = componentLevels{}

// Enabled reports whether lines of a level are written.
func (h componentLevels) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs returns a handler with more attributes and, if one of them names a component, its level.
func (h componentLevels) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(attrs)
	for _, a := range attrs {
		if level, ok := h.levels.ByComponent[a.Value.String()]; ok && a.Key == ComponentKey {
			h.level = level
		}
	}
	return h
}

// WithGroup returns a handler with a group.
func (h componentLevels) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
