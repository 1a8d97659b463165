package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/overload"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
)

const (
	// reportEvery is the interval at which traffic is reported to a remote rules service, and reportTimeout the timeout of
	// a report. lastReportTimeout is the timeout of the last report, when the node stops.
	reportEvery       = 2 * time.Second
	reportTimeout     = 5 * time.Second
	lastReportTimeout = time.Second
	// maxUnsent is the maximum number of elements of trafficReporter.seconds while the rules service is unreachable.
	// maxUnsentRows is the maximum number of their rows: ten minutes of 100 rules, about 5 MB.
	maxUnsent     = 600
	maxUnsentRows = 60_000
	// maxReportRows is the maximum number of rows in a report.
	maxReportRows = 4000
	// idleReports is the number of intervals after which a node without requests sends an empty report, because the
	// response has the erasures.
	idleReports = 2
)

// A trafficReporter sends the traffic statistics of this node to the rules service.
type trafficReporter struct {
	node         *Node
	closedMinute int64 // the minute of the last call of ownTraffic.CloseMinutes; only the recorder's goroutine uses it

	mu              sync.Mutex
	seconds         []traffic.Second   // not sent yet
	minutes         []*traffic.Report  // the clients of minutes that were not sent yet
	appliedErasures map[time.Time]bool // times of the erasures that were applied

	// Only run uses the fields below.
	cursor string // of the last response
	idle   int    // number of intervals without a report
}

// openTraffic creates the recorder of the node's traffic.
func (n *Node) openTraffic(secret []byte) {
	n.namer = n.config.TrafficNamer(secret)
	n.reporter = &trafficReporter{
		node: n, appliedErasures: map[time.Time]bool{}, cursor: traffic.FirstCursor,
	}
	n.ownTraffic = traffic.NewHistory(traffic.HistoryOptions{
		Keep: traffic.NodeHistoryKeep, MaxBytes: traffic.NodeHistoryMaxBytes, Clients: traffic.NodeHistoryClients,
		Namer: n.namer,
	})
	n.recorder = traffic.NewRecorder(traffic.RecorderOptions{
		Counters: n.metrics.Traffic, Sink: n.addTraffic, Node: n.id, Started: n.started, Namer: n.namer,
	})
	n.metrics.Record(n.recorder)
	n.metrics.ShedDetail(func() bool { return n.overload.Sheds(overload.Detail) })
	if n.namer.CountsClients() {
		n.decisionLog = decisionlog.New(decisionlog.Options{Namer: n.namer, Node: n.id})
		n.metrics.LogDecisions(n.decisionLog)
	}
}

// recordDecisions records this node's decisions and reports them until ctx ends.
func (n *Node) recordDecisions(ctx context.Context) {
	reportCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { n.reporter.run(reportCtx) })
	if n.decisionLog != nil {
		group.Go(func() { n.decisionLog.Run(ctx) })
	}
	n.recorder.Run(ctx)
	stop()
	group.Wait()
}

// addTraffic queues a report of the recorder, and adds it to the node's own history.
func (n *Node) addTraffic(r *traffic.Report) {
	n.ownTraffic.Add(r, time.Now())
	n.reporter.add(r)
	if len(r.Seconds) == 0 {
		return
	}
	now := time.Unix(r.Seconds[len(r.Seconds)-1].Unix+1, 0)
	if minute := now.Unix() / 60; minute != n.reporter.closedMinute {
		n.reporter.closedMinute = minute
		n.ownTraffic.CloseMinutes(now, false)
	}
}

// add queues a report to send.
func (t *trafficReporter) add(r *traffic.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, second := range r.Seconds {
		if len(second.Rows) > maxReportRows {
			slices.SortFunc(second.Rows, func(a, b traffic.Row) int { return int(b.Requests) - int(a.Requests) })
			second.Rows = slices.Clone(second.Rows[:maxReportRows])
		}
		t.seconds = append(t.seconds, second)
	}
	t.dropOldest()
	if r.Minute == 0 {
		return
	}
	// A report has all clients since the beginning of its minute, so only the latest report of each minute is sent.
	t.minutes = slices.DeleteFunc(t.minutes, func(old *traffic.Report) bool { return old.Minute == r.Minute })
	if t.minutes = append(t.minutes, r); len(t.minutes) > maxUnsent/60 {
		t.minutes = t.minutes[1:]
	}
}

// dropOldest drops the oldest seconds if the queue exceeds maxUnsent or maxUnsentRows.
func (t *trafficReporter) dropOldest() {
	rows, from := 0, len(t.seconds)
	for from > 0 && len(t.seconds)-from < maxUnsent && rows+len(t.seconds[from-1].Rows) <= maxUnsentRows {
		from--
		rows += len(t.seconds[from].Rows)
	}
	t.seconds = slices.Delete(t.seconds, 0, from)
}

// nextReport returns the next report to send, or nil if the queue is empty.
func (t *trafficReporter) nextReport() *traffic.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.emptyReport()
	rows := 0
	for i := range t.seconds {
		if rows += len(t.seconds[i].Rows); rows > maxReportRows && i > 0 {
			break
		}
		r.Seconds = t.seconds[:i+1]
	}
	if len(t.minutes) > 0 {
		r.Minute, r.Clients = t.minutes[0].Minute, t.minutes[0].Clients
	}
	if len(r.Seconds) == 0 && r.Minute == 0 {
		return nil
	}
	r.Seconds, r.Clients = slices.Clone(r.Seconds), slices.Clone(r.Clients)
	return r
}

// emptyReport returns a report without counts.
func (t *trafficReporter) emptyReport() *traffic.Report {
	return &traffic.Report{Node: t.node.id, Started: t.node.started.UnixMicro(), Cursor: t.cursor}
}

// removeSent removes a report that was sent from the queue. Data that was queued since then remains.
func (t *trafficReporter) removeSent(r *traffic.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(r.Seconds); n > 0 {
		last := r.Seconds[n-1].Unix
		t.seconds = slices.DeleteFunc(t.seconds, func(s traffic.Second) bool { return s.Unix <= last })
	}
	if len(t.minutes) > 0 && t.minutes[0].Minute == r.Minute && len(t.minutes[0].Clients) == len(r.Clients) {
		t.minutes = t.minutes[1:]
	}
}

// run sends queued reports until ctx ends, and a last time after that.
func (t *trafficReporter) run(ctx context.Context) {
	interval := reportEvery
	if t.node.rulesService.remote == nil {
		interval = time.Second
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			t.sendQueued(context.WithoutCancel(ctx), lastReportTimeout)
			return
		case <-tick.C:
			t.sendQueued(ctx, reportTimeout)
		}
	}
}

// sendQueued sends all queued reports. If the rules service is unreachable, they stay queued.
func (t *trafficReporter) sendQueued(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := t.nextReport()
	if t.idle++; r == nil && t.idle >= idleReports && t.node.rulesService.remote != nil {
		r = t.emptyReport()
	}
	for ; r != nil; r = t.nextReport() {
		t.idle = 0
		response, ok, err := t.deliver(ctx, r)
		if err != nil {
			t.node.log.Debug("traffic not reported to the rules service", "err", err.Error())
		}
		if !ok || err != nil {
			return
		}
		t.erase(response.Erase)
		t.cursor = cmp.Or(response.Cursor, traffic.FirstCursor)
		t.removeSent(r)
	}
}

// deliver passes a report to the rules service. ok is false if the rules service has not started yet.
func (t *trafficReporter) deliver(
	ctx context.Context, r *traffic.Report,
) (response control.TrafficResponse, ok bool, err error) {
	service := t.node.rulesService
	if service.remote != nil {
		err := service.remote.Do(ctx, http.MethodPost, "/v1/traffic:report", nil, r, &response)
		return response, err == nil, err
	}
	server := service.api.Load()
	if server == nil {
		return response, false, nil
	}
	r.Cursor = "" // in this process, the API applies erasures with eraseTraffic
	_, _, err = server.Traffic().Report(ctx, t.node.config.ControlNamespace(), r)
	return response, err == nil, err
}

// maxAppliedErasures is the maximum size of appliedErasures.
const maxAppliedErasures = 10_000

// erase applies the erasures that were not applied before.
func (t *trafficReporter) erase(list []control.TrafficErasure) {
	var clients []traffic.ErasedClient
	t.mu.Lock()
	if len(t.appliedErasures) > maxAppliedErasures {
		clear(t.appliedErasures)
	}
	for _, e := range list {
		if at := e.Time.UTC(); !t.appliedErasures[at] {
			t.appliedErasures[at] = true
			clients = append(clients, t.node.namer.Erased(e.Client))
		}
	}
	t.mu.Unlock()
	t.node.eraseClients(clients)
}

// eraseTraffic deletes the statistics of the clients that have all the given attributes. The attributes must have the
// form in which statistics store them, or be hashed by traffic.Namer.Erased.
func (n *Node) eraseTraffic(client map[string]string) {
	n.eraseClients([]traffic.ErasedClient{n.namer.Erased(client)})
}

// eraseClients deletes the statistics of clients.
func (n *Node) eraseClients(clients []traffic.ErasedClient) {
	if len(clients) == 0 {
		return
	}
	n.recorder.Erase(clients...) // before t.mu is locked, because the recorder calls t.add while it holds its own lock
	if n.decisionLog != nil {
		n.decisionLog.Erase(clients...)
	}
	n.ownTraffic.Erase(clients...)
	t := n.reporter
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.minutes {
		r.Clients = slices.DeleteFunc(r.Clients, func(c traffic.ClientCount) bool {
			return n.namer.IsErased(c.Client, clients)
		})
	}
}

// serveTrafficQuery responds to a query of the rules service about the traffic of this node.
func (n *Node) serveTrafficQuery(query json.RawMessage) (json.RawMessage, error) {
	var q traffic.NodeQuery
	if err := json.Unmarshal(query, &q); err != nil {
		return nil, fmt.Errorf("read the query: %w", err)
	}
	now := time.Now()
	var response traffic.NodeResponse
	if q.Sample != nil {
		response.Sample = n.recorder.Sample(q.Sample.Rule, now.Add(-q.Sample.Window), now)
		response.SamplesOff = !n.namer.CountsClients()
	}
	if q.Series != nil {
		response.Series = n.ownTraffic.Series(*q.Series, now)
	}
	if q.Decisions != nil && n.decisionLog != nil {
		response.Decisions = n.decisionLog.Find(*q.Decisions)
	}
	return json.Marshal(response)
}
