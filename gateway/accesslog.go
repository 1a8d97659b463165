package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/gateway/internal/lograte"
	"github.com/headgate/headgate/gateway/upstream"
)

// Defaults of an AccessLog.
const (
	DefaultLogEvery     = 100
	DefaultLogPerSecond = 1000
	DefaultLogQueue     = 4096
)

// AccessLog selects the requests that are logged. The log is written by its own goroutine; if that cannot keep up, lines
// are dropped and counted, and requests do not wait. Headers, cookies and the query are not logged.
type AccessLog struct {
	// Logger is the destination. Default the gateway's Logger.
	Logger *slog.Logger
	// Every logs one request of so many, 1 all of them. Requests with a status of 500 and above, and those whose response
	// was cut off, are always logged, unless the client had disconnected. Default DefaultLogEvery.
	Every int
	// PerSecond is the maximum number of lines a second. Default DefaultLogPerSecond.
	PerSecond int
	// Queue is the maximum number of lines that wait to be written. Default DefaultLogQueue.
	Queue int
	// Query logs the query too, which often contains secrets. Default false.
	Query bool
}

func (a *AccessLog) filled() AccessLog {
	b := *a
	setDefault(&b.Every, DefaultLogEvery)
	setDefault(&b.PerSecond, DefaultLogPerSecond)
	setDefault(&b.Queue, DefaultLogQueue)
	return b
}

func (a *AccessLog) validate(k *checker) {
	between(k, "AccessLog.Every", a.Every, 1, maxCount)
	between(k, "AccessLog.PerSecond", a.PerSecond, 1, maxCount)
	between(k, "AccessLog.Queue", a.Queue, 1, 1<<20)
}

// An accessLine describes a request in the access log.
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
	dropped atomic.Int64  // lines
	written atomic.Int64
}

func newAccessLogger(config *AccessLog) *accessLogger {
	return &accessLogger{config: config, queue: make(chan accessLine, config.Queue)}
}

// wants reports whether a request is logged.
func (l *accessLogger) wants(response *responseState) bool {
	if n := l.count.Add(1); n%uint64(l.config.Every) == 0 {
		return true
	}
	return response.status >= http.StatusInternalServerError || !response.complete && response.status != upstream.StatusClientGone
}

func (l *accessLogger) add(line accessLine) {
	select {
	case l.queue <- line:
	default:
		l.dropped.Add(1)
	}
}

// run writes lines until the context ends, and then those that are still queued.
func (l *accessLogger) run(ctx context.Context) {
	limit := lograte.PerSecond(l.config.PerSecond)
	for {
		select {
		case line := <-l.queue:
			l.write(&limit, &line)
		case <-ctx.Done():
			for {
				select {
				case line := <-l.queue:
					l.write(&limit, &line)
				default:
					return
				}
			}
		}
	}
}

func (l *accessLogger) write(limit *lograte.Limit, line *accessLine) {
	ok, dropped := limit.Allow(line.at)
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
	if dropped > 0 {
		attrs = append(attrs, slog.Int64("dropped", dropped))
	}
	level := slog.LevelInfo
	if line.status >= http.StatusInternalServerError || line.aborted {
		level = slog.LevelWarn
	}
	record := slog.NewRecord(line.at, level, "request", 0)
	record.AddAttrs(attrs...)
	if handler := l.config.Logger.Handler(); handler.Enabled(context.Background(), level) {
		_ = handler.Handle(context.Background(), record) // an error of the log cannot be logged
	}
	l.written.Add(1)
}

// maxLoggedPath bounds how much of an invalid path is logged.
const maxLoggedPath = 256

// logLine returns the access log line of a request.
func (ex *exchange) logLine(r *http.Request, o *Observation) accessLine {
	info := &ex.request
	line := accessLine{
		at: ex.g.clock.at(ex.began), took: o.Took, method: r.Method, host: info.host, path: info.path, protocol: r.Proto,
		route: o.Route, upstream: o.Upstream, status: o.Status, sent: o.Sent, retries: o.Retries, aborted: o.Aborted,
		fault: o.Err,
	}
	if info.id != nil {
		line.id = info.id[0]
	}
	if line.path == "" { // it is invalid
		line.path = r.URL.EscapedPath()
		line.path = line.path[:min(len(line.path), maxLoggedPath)]
	}
	if info.client.IsValid() {
		line.client = info.client.String()
	}
	if ex.g.config.AccessLog.Query {
		line.query = r.URL.RawQuery
	}
	return line
}
