// Package lograte limits the number of log lines per second, so that clients cannot flood the log.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Limit limits the number of log lines per second. It is not safe for concurrent use.
type Limit struct {
	perSecond int
	second    int64 // the current second, counted since 1970
	passed    int   // lines that were allowed in this second
	dropped   int64 // lines that were dropped since the last allowed one
}

// PerSecond returns a Limit of n lines per second.
func PerSecond(n int) Limit { return Limit{perSecond: n} }

// Allow reports whether another line may be written. If so, dropped is the number of lines that were dropped
// since the last one.
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

// A Logger passes log lines on to a *slog.Logger, at most a given number per second.
type Logger struct {
	next  *slog.Logger
	mu    sync.Mutex
	limit Limit
}

// NewLogger returns a Logger that passes at most n lines per second on to another logger.
func NewLogger(next *slog.Logger, n int) *Logger { return &Logger{next: next, limit: PerSecond(n)} }

// Handler returns a handler that adds the attribute "from" with the source to each line. All handlers of a Logger
// share its limit.
func (l *Logger) Handler(source string) slog.Handler {
	return &handler{logger: l, next: l.next.Handler().WithAttrs([]slog.Attr{slog.String("from", source)})}
}

type handler struct {
	logger *Logger
	next   slog.Handler
}

var _ slog.Handler = (*handler)(nil)

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
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
	return h.next.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{logger: h.logger, next: h.next.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{logger: h.logger, next: h.next.WithGroup(name)}
}
