package gateway

import (
	"log/slog"
	"net/http"

	"github.com/headgate/headgate/server/gateway/internal/accesslog"
)

// Defaults of an AccessLog.
const (
	DefaultLogEvery     = 100
	DefaultLogPerSecond = 1000
	DefaultLogQueue     = 4096
)

// AccessLog selects the requests that are logged. A separate goroutine writes the log. If it cannot keep up, lines are
// dropped and counted, and requests do not wait. Headers and cookies are never logged. The query is logged only if
// Query is set.
type AccessLog struct {
	// Logger is the destination. Default the gateway's Logger.
	Logger *slog.Logger
	// Batch is called with a function that writes several lines to Logger. Batch must call that function once. Logger's
	// handler can buffer these lines, and Batch can write the buffer after the call. Default nil: each line is written
	// separately.
	Batch func(write func())
	// Every means that one in Every requests is logged; 1 logs all requests. Responses with a status of 500 and above,
	// and responses that were cut off, are always logged, unless the client has disconnected. Default DefaultLogEvery.
	Every int
	// PerSecond is the maximum number of lines a second. Default DefaultLogPerSecond.
	PerSecond int
	// Queue is the maximum number of lines that wait to be written. Default DefaultLogQueue.
	Queue int
	// Query logs the query too, which often contains secrets. Default false.
	Query bool
}

func (a *AccessLog) withDefaults() AccessLog {
	b := *a
	setDefault(&b.Every, DefaultLogEvery)
	setDefault(&b.PerSecond, DefaultLogPerSecond)
	setDefault(&b.Queue, DefaultLogQueue)
	return b
}

func (a *AccessLog) validate(errs *configErrors) {
	validateRange(errs, "AccessLog.Every", a.Every, 1, maxCount)
	validateRange(errs, "AccessLog.PerSecond", a.PerSecond, 1, maxCount)
	validateRange(errs, "AccessLog.Queue", a.Queue, 1, 1<<20)
}

// maxLoggedPath is the maximum number of bytes of an invalid path that are logged.
const maxLoggedPath = 256

// logLine returns the access log line of a request.
func (ex *exchange) logLine(r *http.Request, o *Observation) accesslog.Line {
	info := &ex.request
	line := accesslog.Line{
		Time: ex.g.clock.at(ex.began), Duration: o.Duration, Method: r.Method, Host: info.host, Path: info.path,
		Protocol: r.Proto, Route: o.Route, Upstream: o.Upstream, Status: o.Status, Sent: o.Sent, Retries: o.Retries,
		Aborted: o.Aborted, Err: o.Err,
	}
	if info.id != nil {
		line.ID = info.id[0]
	}
	if line.Path == "" { // the path is invalid, so it has no canonical form
		line.Path = r.URL.EscapedPath()
		line.Path = line.Path[:min(len(line.Path), maxLoggedPath)]
	}
	if info.client.IsValid() {
		line.Client = info.client.String()
	}
	if ex.g.config.AccessLog.Query {
		line.Query = r.URL.RawQuery
	}
	return line
}
