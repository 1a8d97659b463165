// Package accesslog writes the access log of the gateway from a bounded queue, in its own goroutine, so that requests
// do not wait for it.
package accesslog

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/lograte"
)

// A Line describes a request.
type Line struct {
	Time                      time.Time
	Duration                  time.Duration
	ID, Client                string
	Method, Host, Path        string
	Query                     string // like Route and Upstream, not logged if it is empty
	Protocol, Route, Upstream string
	Status                    int
	Sent                      int64 // bytes of the body sent to the client
	Retries                   int
	Aborted                   bool
	Err                       error
}

// Options configure a Logger. All but Batch are required.
type Options struct {
	Logger    *slog.Logger
	Batch     func(write func()) // wraps write, which writes several lines, and must call it; nil for no wrapper
	Every     int                // one in Every successful requests is logged
	PerSecond int                // maximum number of lines per second
	Queue     int                // maximum number of lines that wait to be written
}

// A Logger writes an access log. It is safe for concurrent use.
type Logger struct {
	options  Options
	queue    chan Line
	requests atomic.Uint64
	dropped  atomic.Int64
	written  atomic.Int64
}

// New returns a Logger. Run writes its lines.
func New(o Options) *Logger { return &Logger{options: o, queue: make(chan Line, o.Queue)} }

// Counts returns how many lines were written, and how many were dropped because of the queue or the rate.
func (l *Logger) Counts() (written, dropped int64) { return l.written.Load(), l.dropped.Load() }

// Wants counts a request, and reports whether to log it. It logs each failed request, and one of Options.Every
// other requests.
func (l *Logger) Wants(failed bool) bool {
	return l.requests.Add(1)%uint64(l.options.Every) == 0 || failed
}

// Add queues a line, or drops it if the queue is full.
func (l *Logger) Add(line Line) {
	select {
	case l.queue <- line:
	default:
		l.dropped.Add(1)
	}
}

// gatherTime is the time for which Run waits for more lines after the first, so that it writes many lines at once.
// Otherwise waking the goroutine and calling the system for each line would cost more than formatting it.
const gatherTime = 5 * time.Millisecond

// Run writes lines until the context ends. Then it writes the lines that are still queued and returns.
func (l *Logger) Run(ctx context.Context) {
	limit := lograte.PerSecond(l.options.PerSecond)
	batch := l.options.Batch
	if batch == nil {
		batch = func(write func()) { write() }
	}
	gather := time.NewTimer(gatherTime)
	defer gather.Stop()
	for {
		select {
		case line := <-l.queue:
			gather.Reset(gatherTime)
			select {
			case <-gather.C:
			case <-ctx.Done():
			}
			batch(func() {
				l.write(&limit, &line)
				l.writeQueued(&limit)
			})
		case <-ctx.Done():
			batch(func() { l.writeQueued(&limit) })
			return
		}
	}
}

// writeQueued writes the lines that are queued.
func (l *Logger) writeQueued(limit *lograte.Limit) {
	for range len(l.queue) {
		line := <-l.queue
		l.write(limit, &line)
	}
}

func (l *Logger) write(limit *lograte.Limit, line *Line) {
	ok, dropped := limit.Allow(line.Time)
	if !ok {
		l.dropped.Add(1)
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("id", line.ID), slog.String("client", line.Client), slog.String("method", line.Method),
		slog.String("host", line.Host), slog.String("path", line.Path), slog.String("protocol", line.Protocol),
		slog.Int("status", line.Status), slog.Int64("bytes", line.Sent), slog.Float64("seconds", line.Duration.Seconds()),
	)
	if line.Query != "" {
		attrs = append(attrs, slog.String("query", line.Query))
	}
	if line.Route != "" {
		attrs = append(attrs, slog.String("route", line.Route))
	}
	if line.Upstream != "" {
		attrs = append(attrs, slog.String("upstream", line.Upstream))
	}
	if line.Retries > 0 {
		attrs = append(attrs, slog.Int("retries", line.Retries))
	}
	if line.Aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if line.Err != nil {
		attrs = append(attrs, slog.String("err", line.Err.Error()))
	}
	if dropped > 0 {
		attrs = append(attrs, slog.Int64("dropped", dropped))
	}
	level := slog.LevelInfo
	if line.Status >= http.StatusInternalServerError || line.Aborted {
		level = slog.LevelWarn
	}
	record := slog.NewRecord(line.Time, level, "request", 0)
	record.AddAttrs(attrs...)
	if handler := l.options.Logger.Handler(); handler.Enabled(context.Background(), level) {
		_ = handler.Handle(context.Background(), record) // an error of the log cannot be logged
	}
	l.written.Add(1)
}
