package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// What an AccessLog holds unless told otherwise.
const (
	DefaultLogEvery     = 100
	DefaultLogPerSecond = 1000
	DefaultLogQueue     = 4096
)

// AccessLog says which requests are logged, and where. It is written by a goroutine of its own; when that cannot keep up,
// lines are dropped and counted rather than requests held up. Headers, cookies and the query are not in it.
type AccessLog struct {
	// Logger is where. Default the gateway's Logger.
	Logger *slog.Logger
	// Every is of how many requests one is logged, 1 for all. Those that were answered with 500 or above, or whose answer was
	// cut off, are logged in any case, unless the client had gone. Default DefaultLogEvery.
	Every int
	// PerSecond is how many lines there are a second at most, whatever happens. Default DefaultLogPerSecond.
	PerSecond int
	// Queue is how many lines may wait to be written. Default DefaultLogQueue.
	Queue int
	// Query logs the query too, which often holds secrets. Default not.
	Query bool
}

func (a *AccessLog) filled() AccessLog {
	b := *a
	setDefault(&b.Every, DefaultLogEvery)
	setDefault(&b.PerSecond, DefaultLogPerSecond)
	setDefault(&b.Queue, DefaultLogQueue)
	return b
}

func (a *AccessLog) check(k *checker) {
	between(k, "AccessLog.Every", a.Every, 1, maxCount)
	between(k, "AccessLog.PerSecond", a.PerSecond, 1, maxCount)
	between(k, "AccessLog.Queue", a.Queue, 1, 1<<20)
}

// An accessLine is a request that is logged.
type accessLine struct {
	at       time.Time
	took     time.Duration
	id       string
	client   string
	method   string
	host     string
	path     string
	query    string
	protocol string
	route    string
	upstream string
	status   int
	sent     int64
	retries  int
	aborted  bool
	fault    error
}

type accessLogger struct {
	config  *AccessLog
	queue   chan accessLine
	count   atomic.Uint64 // requests
	dropped atomic.Int64  // lines, as the queue was full
	written atomic.Int64
}

func newAccessLogger(config *AccessLog) *accessLogger {
	return &accessLogger{config: config, queue: make(chan accessLine, config.Queue)}
}

// wants reports whether a request is logged. It is all that most requests cost.
func (l *accessLogger) wants(ex *exchange) bool {
	if n := l.count.Add(1); n%uint64(l.config.Every) == 0 {
		return true
	}
	return ex.status >= http.StatusInternalServerError || !ex.complete && ex.status != statusClientGone
}

func (l *accessLogger) add(line accessLine) {
	select {
	case l.queue <- line:
	default:
		l.dropped.Add(1)
	}
}

// run writes lines until the gateway ends, and then those that are still there.
func (l *accessLogger) run(ctx context.Context) {
	rate := pace{most: l.config.PerSecond}
	for {
		select {
		case line := <-l.queue:
			l.write(&rate, &line)
		case <-ctx.Done():
			for {
				select {
				case line := <-l.queue:
					l.write(&rate, &line)
				default:
					return
				}
			}
		}
	}
}

func (l *accessLogger) write(rate *pace, line *accessLine) {
	ok, missed := rate.next(line.at)
	if !ok {
		l.dropped.Add(1)
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("id", line.id), slog.String("client", line.client), slog.String("method", line.method),
		slog.String("host", line.host), slog.String("path", line.path), slog.String("protocol", line.protocol),
		slog.Int("status", line.status), slog.Int64("bytes", line.sent), slog.Float64("seconds", line.took.Seconds()),
	)
	if line.query != "" {
		attrs = append(attrs, slog.String("query", line.query))
	}
	if line.route != "" {
		attrs = append(attrs, slog.String("route", line.route))
	}
	if line.upstream != "" {
		attrs = append(attrs, slog.String("upstream", line.upstream))
	}
	if line.retries > 0 {
		attrs = append(attrs, slog.Int("retries", line.retries))
	}
	if line.aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if line.fault != nil {
		attrs = append(attrs, slog.String("err", line.fault.Error()))
	}
	if missed > 0 {
		attrs = append(attrs, slog.Int64("dropped", missed))
	}
	level := slog.LevelInfo
	if line.status >= http.StatusInternalServerError || line.aborted {
		level = slog.LevelWarn
	}
	record := slog.NewRecord(line.at, level, "request", 0)
	record.AddAttrs(attrs...)
	if handler := l.config.Logger.Handler(); handler.Enabled(context.Background(), level) {
		_ = handler.Handle(context.Background(), record) // there is nowhere to complain of a log
	}
	l.written.Add(1)
}
