package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// gatewayScenarios are the scenarios of servers in front of a service.
func gatewayScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "proxies", Seconds: 320, Run: runProxies},
		{Name: "http2", Seconds: 90, Run: runHTTP2},
		{Name: "large", Seconds: 70, Run: runLarge},
		{Name: "posts", Seconds: 70, Run: runPosts},
		{Name: "new-connections", Seconds: 70, Run: runNewConnections},
		{Name: "tls", Seconds: 70, Run: runTLS},
		{Name: "access-log", Seconds: 90, Run: runAccessLog},
		{Name: "connections", Seconds: 250, Run: runConnections},
		{Name: "steady", Seconds: 130, Run: runSteady},
		{Name: "price", Seconds: 130, Run: runPrice},
		{Name: "half-load", Seconds: 130, Run: runHalfLoad},
		{Name: "noise", Seconds: 60, Run: runNoise},
		{Name: "refusals", Seconds: 160, Run: runRefusals},
	}
}

// A comparison is a scenario in which fronts are measured under the same load.
type comparison struct {
	id, title   string
	fronts      []site.Front
	requests    []string
	secure      bool  // over TLS
	connections []int // one table for each number; default: the number of the site
	divide      int   // by which the numbers are divided in a quick run; default 1
}

// runProxies compares proxies at full load.
func runProxies(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "proxies", title: "Passing requests on", fronts: ProxyFronts(), requests: site.LoadRequests(),
	})
}

// runPrice compares the gateway with and without limits. All requests are equal, because wrk repeats one request by
// default.
func runPrice(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "price", title: "Passing the same request on again and again", fronts: PriceFronts(),
		requests: site.LoadRequests()[:1],
	})
}

// runRefusals compares servers that deny every request.
func runRefusals(ctx context.Context, b *harness.Bench) error {
	return runLoad(ctx, b, comparison{
		id: "refusals", title: "Refusing every request", fronts: RefusingFronts(), requests: site.LoadRequests(),
	})
}

// gatewayTurns measures fronts round by round. In each round every front runs once, in a new random order. The first
// round, 0, is a warm-up. opening is the share of the scenario's time that has passed already.
func gatewayTurns(
	b *harness.Bench, name string, fronts []*site.OpenFront, opening float64, measure func(round, i int) error,
) error {
	rounds := b.Sizes.GatewayRounds
	step := 0
	for round := range rounds + 1 {
		stage := fmt.Sprintf("%s, round %d of %d", name, round, rounds)
		if round == 0 {
			stage = name + ", warming"
		}
		for _, i := range rand.Perm(len(fronts)) {
			done := float64(step) / float64((rounds+1)*len(fronts))
			b.Progress.At(opening+(1-opening)*done, stage, fronts[i].Name)
			step++
			if err := measure(round, i); err != nil {
				return fmt.Errorf("%s: %w", fronts[i].Name, err)
			}
		}
	}
	return nil
}

func runLoad(ctx context.Context, b *harness.Bench, c comparison) error {
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	fronts, err := s.OpenAll(ctx, c.fronts, func(name string) { b.Progress.At(0, c.id+", opening", name) })
	if err != nil {
		return err
	}
	if c.connections == nil {
		c.connections = []int{s.Connections}
	}
	divide := 1
	if b.Results.Quick {
		divide = max(c.divide, 1)
	}
	// Each front runs with each number of connections in every round.
	var all []*site.OpenFront
	for range c.connections {
		all = append(all, fronts...)
	}
	loads := make([][]site.Load, len(all))
	err = gatewayTurns(b, c.id, all, 0.02, func(round, i int) error {
		l, err := s.Load(ctx, all[i], site.Order{
			Requests: c.requests, Secure: c.secure, Connections: c.connections[i/len(fronts)] / divide, Length: b.Sizes.LoadLength,
		})
		if err == nil && round > 0 {
			loads[i] = append(loads[i], l)
		}
		return err
	})
	if err != nil {
		return err
	}
	for n, connections := range c.connections {
		table := harness.LoadTable{ID: c.id, Title: c.title, Connections: connections}
		if len(c.connections) > 1 {
			table.ID = tableOf(c.id, connections)
		}
		for i, f := range fronts {
			table.Rows = append(table.Rows, NewLoadRow(f.Front, loads[n*len(fronts)+i]))
		}
		b.Results.Load = append(b.Results.Load, table)
	}
	return nil
}

// tableOf returns the name of the table for a number of connections.
func tableOf(id string, connections int) string { return fmt.Sprintf("%s-%d", id, connections) }

// runHalfLoad compares response times at half of the load that the gateway can serve.
func runHalfLoad(ctx context.Context, b *harness.Bench) error {
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	fronts, err := s.OpenAll(ctx, PacedFronts(), func(name string) { b.Progress.At(0, "half-load, opening", name) })
	if err != nil {
		return err
	}
	full, err := frontRate(ctx, s, b, fronts[0])
	if err != nil {
		return err
	}
	table := harness.PaceTable{Full: full, Rate: full / 2, Connections: s.Connections}
	for _, f := range fronts {
		table.Rows = append(table.Rows, harness.PaceRow{Contender: f.Name, Title: f.Title, Role: f.Role})
	}
	b.Progress.At(0.1, "half-load, all by turns", "")
	warming := b.Sizes.PaceWindows
	err = paceInto(ctx, s, &table, fronts, warming, site.PaceOrder{
		Connections: s.Connections, Rate: table.Rate, Windows: warming +
			b.Sizes.GatewayRounds*b.Sizes.PaceWindows, Length: b.Sizes.PaceLength,
	})
	if err != nil {
		return err
	}
	b.Results.Pace = &table
	return nil
}

// paceInto measures the response times of fronts and adds them to the rows of a table. The first windows are a warm-up.
func paceInto(
	ctx context.Context, s *site.Site, t *harness.PaceTable, fronts []*site.OpenFront, warming int, order site.PaceOrder,
) error {
	t.First = true
	for _, f := range fronts {
		// The load leaves a part of the core idle, so other processes on it do not starve.
		if f.Process != nil && site.InRealTime(f.Process.Cmd.Process.Pid, site.MeasuredPriority) != nil {
			t.First = false
		}
	}
	begun := time.Now()
	measured, err := s.Pace(ctx, fronts, order)
	if err != nil {
		return err
	}
	for i := range t.Rows {
		t.Rows[i].Runs = measured.Windows[i][warming:]
	}
	t.Watched, t.Stalls, t.Stalled = measured.Watched, measured.Stalls, measured.Stalled
	t.Took = time.Since(begun)
	return nil
}

// One client floods; each of the others sends half of its limit.
const (
	neighbours     = 20
	neighbourLimit = 100 // requests a second that each client may send
	floodTimes     = 50  // the flooding client sends this multiple of its limit
)

// runNoise compares the response times of well-behaved clients with and without a flooding client.
func runNoise(ctx context.Context, b *harness.Bench) error {
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	fronts, err := s.OpenAll(ctx,
		[]site.Front{{Name: "headgate", Role: harness.Ours, Open: openHeadgate(rulesForNeighbours)}},
		func(name string) { b.Progress.At(0, "noise, opening", name) })
	if err != nil {
		return err
	}
	table := harness.PaceTable{Rate: neighbours * neighbourLimit / 2, Connections: neighbours, Rows: []harness.PaceRow{
		{Contender: harness.WhenQuiet, Title: "nobody floods", Role: harness.Ours},
		{Contender: harness.WhenFlooded, Title: "one client floods", Role: harness.Ours},
	}}
	b.Progress.At(0.1, "noise, by turns", "")
	const warming = 1
	err = paceInto(ctx, s, &table, []*site.OpenFront{fronts[0], fronts[0]}, warming, site.PaceOrder{
		Connections: neighbours, Clients: neighbours, Rate: table.Rate, Floods: []float64{0, floodTimes * neighbourLimit},
		Windows: warming + noiseWindows*b.Sizes.GatewayRounds, Length: b.Sizes.NoiseLength,
	})
	if err != nil {
		return err
	}
	if flooded, refused := table.Rows[1].Flood(); !b.Results.Quick && 10*refused < 9*flooded {
		return fmt.Errorf("%d of the %d requests of the flood were refused: want nearly all", refused, flooded)
	}
	b.Results.Noise = &table
	return nil
}

const noiseWindows = 2 // in every round

// frontRate returns the number of requests per second that a front serves at full load.
func frontRate(ctx context.Context, s *site.Site, b *harness.Bench, f *site.OpenFront) (float64, error) {
	const times = 3
	var rates []float64
	for i := range times {
		b.Progress.At(0.1*float64(i)/times, "half-load, looking for the full load", f.Name)
		l, err := s.Load(ctx, f, site.Order{
			Requests: site.LoadRequests(), Connections: s.Connections, Length: b.Sizes.LoadLength,
		})
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.Name, err)
		}
		rates = append(rates, l.Rate)
	}
	return harness.MedianOf(rates), nil
}
