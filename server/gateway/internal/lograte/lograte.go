// Package lograte bounds how many log lines are written a second, so that clients cannot flood the log.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Limit lets a number of lines pass each second. It is not safe for concurrent use.
type Limit struct {
	perSecond int
	second    int64 // the current one, since 1970
	passed    int   // lines in this second
	dropped   int64 // lines since the last one that has passed
}

// PerSecond returns a Limit of n lines a second.
func PerSecond(n int) Limit { return Limit{perSecond: n} }

// Allow reports whether another line may pass, and if so, how many were dropped since the last one.
func (l *Limit) Allow(now time.Time) (ok bool, dropped int64) {
	if second := now.Unix(); second != l.second {
		l.second, l.passed = second, 0
	}
	if l.passed >= l.perSecond {
		l.dropped++
		return false, 0
	}
	l.passed++
	dropped, l.dropped = l.dropped, 0
	return true, dropped
}

// A Logger passes a bounded number of lines a second on to another one.
type Logger struct {
	to    *slog.Logger
	mu    sync.Mutex
	limit Limit
}

// NewLogger returns a Logger of n lines a second.
func NewLogger(to *slog.Logger, n int) *Logger { return &Logger{to: to, limit: PerSecond(n)} }

// Handler returns a handler whose records have the source as attribute "from". All handlers of a Logger share its
// limit.
func (l *Logger) Handler(source string) slog.Handler {
	return &handler{logger: l, to: l.to.Handler().WithAttrs([]slog.Attr{slog.String("from", source)})}
}

type handler struct {
	logger *Logger
	to     slog.Handler
}

var _ slog.Handler = (*handler)(nil)

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.logger.mu.Lock()
	ok, dropped := h.logger.limit.Allow(r.Time)
	h.logger.mu.Unlock()
	if !ok {
		return nil
	}
	if dropped > 0 {
		r.AddAttrs(slog.Int64("dropped", dropped))
	}
	return h.to.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{logger: h.logger, to: h.to.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{logger: h.logger, to: h.to.WithGroup(name)}
}
