package top

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Figures are the figures that are shown.
type Figures struct {
	Traffic *traffic.Series       `json:"traffic"`
	Clients []traffic.ClientCount `json:"clients"`
	Nodes   []control.Node        `json:"nodes"`
	// Stores are the Redis servers of the nodes. Nodes that count in their own memory have none.
	Stores []control.ServerStats `json:"stores"`
}

// An Order is how clients are sorted.
type Order string

// The orders.
const (
	ByDenied   Order = "denied"
	ByRequests Order = "requests"
)

// A Query selects figures.
type Query struct {
	Window time.Duration
	Order  Order
	Rule   string // empty for all
	Search string // in clients, empty for all
}

// Fetch reads figures from a rules service.
func Fetch(ctx context.Context, client *remote.Client, q Query) (*Figures, error) {
	f := &Figures{Traffic: &traffic.Series{}, Clients: []traffic.ClientCount{}}
	series := url.Values{"window": {q.Window.String()}, "order": {string(q.Order)}}
	if q.Search != "" { // the search may find any rule
		series.Set("limit", "1000")
	}
	clients := url.Values{"window": {max(q.Window, time.Minute).String()}, "order": {string(q.Order)}}
	if q.Rule != "" {
		series.Set("rule", q.Rule)
		clients.Set("rule", q.Rule)
	}
	if err := client.Do(ctx, http.MethodGet, "/v1/traffic", series, nil, f.Traffic); err != nil {
		return nil, err
	}
	if err := f.fetchClients(ctx, client, q, clients); err != nil {
		return nil, err
	}
	f.Stores, f.Nodes = []control.ServerStats{}, []control.Node{}
	var stores struct{ Servers []control.ServerStats }
	err := client.Do(ctx, http.MethodGet, "/v1/stores", nil, nil, &stores)
	if isSingleNode(err) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	f.Stores = append(f.Stores, stores.Servers...)
	f.Nodes, err = client.Nodes(ctx)
	return f, err
}

// isSingleNode reports whether an error is that of a node without a rules service, which has only its own traffic.
func isSingleNode(err error) bool {
	e, ok := errors.AsType[*remote.Error](err)
	return ok && e.Status == http.StatusNotFound && strings.HasPrefix(e.Detail, remote.NoService)
}

// maxSearchedRules is the maximum number of rules whose clients are fetched because a search finds the rule.
const maxSearchedRules = 5

// fetchClients reads the clients that a search finds, by their name or by that of their rule.
func (f *Figures) fetchClients(ctx context.Context, client *remote.Client, q Query, values url.Values) error {
	get := func(key, value string) error {
		values := maps.Clone(values)
		if value != "" {
			values.Set(key, value)
		}
		var found traffic.Clients
		if err := client.Do(ctx, http.MethodGet, "/v1/traffic/clients", values, nil, &found); err != nil {
			return err
		}
		for i := range found.Clients {
			f.Clients = append(f.Clients, found.Clients[i].ClientCount)
		}
		return nil
	}
	if err := get("q", q.Search); err != nil || q.Search == "" || q.Rule != "" {
		return err
	}
	rules := 0
	for i := range f.Traffic.Rules {
		rule := f.Traffic.Rules[i].Rule
		if !strings.Contains(rule, q.Search) {
			continue
		}
		if rules++; rules > maxSearchedRules {
			break
		}
		f.Clients = slices.DeleteFunc(f.Clients, func(c traffic.ClientCount) bool { return c.Rule == rule })
		if err := get("rule", rule); err != nil {
			return err
		}
	}
	return nil
}

// SortedClients returns the clients in an order. By denials, clients that only a shadow rule would have denied come
// after those that were denied.
func (f *Figures) SortedClients(order Order) []traffic.ClientCount {
	list := slices.Clone(f.Clients)
	slices.SortStableFunc(list, func(a, b traffic.ClientCount) int {
		if order == ByDenied {
			return cmp.Or(cmp.Compare(enforced(&b), enforced(&a)), cmp.Compare(b.Denied, a.Denied))
		}
		return cmp.Compare(b.Requests, a.Requests)
	})
	return list
}

// enforced returns the requests of a client that were really denied.
func enforced(c *traffic.ClientCount) uint64 {
	if c.Shadow {
		return 0
	}
	return c.Denied
}

// A RuleRate has the rates of a rule per second.
type RuleRate struct {
	Rule             string
	Requests, Denied float64
	Shadow           float64
	Spark            []uint64
}

// limits reports whether a rule limits a client whose name contains a text.
func (f *Figures) limits(rule, search string) bool {
	return slices.ContainsFunc(f.Clients, func(c traffic.ClientCount) bool {
		return c.Rule == rule && strings.Contains(strings.ToLower(ClientText(c.Client)), strings.ToLower(search))
	})
}

// Rates returns the rates of the rules whose name contains the search, or that limit a client whose name contains it.
// They are sorted by requests or denials.
func (f *Figures) Rates(order Order, search string) []RuleRate {
	step := f.step()
	var list []RuleRate
	for i := range f.Traffic.Rules {
		r := &f.Traffic.Rules[i]
		if !strings.Contains(r.Rule, search) && !f.limits(r.Rule, search) {
			continue
		}
		list = append(list, RuleRate{
			Rule: r.Rule, Requests: rate(r.Requests, step), Denied: rate(r.Denied, step),
			Shadow: rate(r.ShadowDenied, step), Spark: r.Requests,
		})
	}
	slices.SortStableFunc(list, func(a, b RuleRate) int {
		if order == ByDenied {
			return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests))
		}
		return cmp.Compare(b.Requests, a.Requests)
	})
	return list
}

// step returns the interval between two numbers of a series.
func (f *Figures) step() time.Duration {
	step, err := time.ParseDuration(f.Traffic.Step)
	if err != nil || step <= 0 {
		return time.Second
	}
	return step
}

// rateSteps is the number of steps over which rates are averaged.
const rateSteps = 10

// rate returns the mean of the last rateSteps numbers of a series, per second.
func rate(list []uint64, step time.Duration) float64 {
	n := min(len(list), rateSteps)
	if n == 0 {
		return 0
	}
	var sum uint64
	for _, v := range list[len(list)-n:] {
		sum += v
	}
	return float64(sum) / (float64(n) * step.Seconds())
}
