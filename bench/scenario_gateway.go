package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// gatewayScenarios are those of servers that stand before a service.
func gatewayScenarios() []scenario {
	return []scenario{
		{"proxies", 320, runProxies},
		{"price", 130, runPrice},
		{"half-load", 130, runHalfLoad},
		{"noise", 60, runNoise},
		{"refusals", 160, runRefusals},
	}
}

// runProxies compares proxies that get as many requests as they can pass on.
func runProxies(ctx context.Context, b *bench) error {
	return runLoad(ctx, b, "proxies", "Passing requests on", proxyFronts(), loadRequests())
}

// runPrice compares the gateway with and without limits while clients repeat themselves, as wrk does if it is not told what to send.
func runPrice(ctx context.Context, b *bench) error {
	return runLoad(ctx, b, "price", "Passing the same request on again and again", priceFronts(), loadRequests()[:1])
}

// runRefusals compares servers that refuse every request.
func runRefusals(ctx context.Context, b *bench) error {
	return runLoad(ctx, b, "refusals", "Refusing every request", refusingFronts(), loadRequests())
}

// gatewayTurns has fronts measured round by round, in every round everyone once and in a new random order. The first round,
// 0, only warms. opening is the part of the time that is behind already.
func (b *bench) gatewayTurns(name string, fronts []*openFront, opening float64, measure func(round, i int) error) error {
	rounds := b.sizes.GatewayRounds
	step := 0
	for round := range rounds + 1 {
		stage := fmt.Sprintf("%s, round %d of %d", name, round, rounds)
		if round == 0 {
			stage = name + ", warming"
		}
		for _, i := range rand.Perm(len(fronts)) {
			done := float64(step) / float64((rounds+1)*len(fronts))
			b.progress.at(opening+(1-opening)*done, stage, fronts[i].name)
			step++
			if err := measure(round, i); err != nil {
				return fmt.Errorf("%s: %w", fronts[i].name, err)
			}
		}
	}
	return nil
}

func runLoad(ctx context.Context, b *bench, id, title string, list []front, requests []string) error {
	s, err := openSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	fronts, err := s.openAll(ctx, list, func(name string) { b.progress.at(0, id+", opening", name) })
	if err != nil {
		return err
	}
	loads := make([][]load, len(fronts))
	err = b.gatewayTurns(id, fronts, 0.02, func(round, i int) error {
		l, err := s.load(ctx, fronts[i], requests, b.sizes.LoadLength)
		if err == nil && round > 0 {
			loads[i] = append(loads[i], l)
		}
		return err
	})
	if err != nil {
		return err
	}
	table := loadTable{ID: id, Title: title, Connections: s.connections}
	for i, f := range fronts {
		table.Rows = append(table.Rows, newLoadRow(f.front, loads[i]))
	}
	b.results.Load = append(b.results.Load, table)
	return nil
}

// runHalfLoad compares how long answers take at half of what the gateway could pass on.
func runHalfLoad(ctx context.Context, b *bench) error {
	s, err := openSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	fronts, err := s.openAll(ctx, pacedFronts(), func(name string) { b.progress.at(0, "half-load, opening", name) })
	if err != nil {
		return err
	}
	full, err := s.fullRate(ctx, b, fronts[0])
	if err != nil {
		return err
	}
	table := paceTable{Full: full, Rate: full / 2, Connections: s.connections}
	for _, f := range fronts {
		table.Rows = append(table.Rows, paceRow{Contender: f.name, Title: f.title, Role: f.role})
	}
	b.progress.at(0.1, "half-load, all by turns", "")
	warming := b.sizes.PaceWindows
	err = s.paceInto(ctx, &table, fronts, warming, paceOrder{
		Connections: s.connections, Rate: table.Rate, Windows: warming + b.sizes.GatewayRounds*b.sizes.PaceWindows, Length: b.sizes.PaceLength,
	})
	if err != nil {
		return err
	}
	b.results.Pace = &table
	return nil
}

// paceInto measures how long the answers of fronts take, those of a table's rows. The first windows only warm.
func (s *site) paceInto(ctx context.Context, t *paceTable, fronts []*openFront, warming int, order paceOrder) error {
	t.First = true
	for _, f := range fronts {
		// A measured server leaves room on its core, so no other process starves.
		if f.process != nil && inRealTime(f.process.cmd.Process.Pid, measuredPriority) != nil {
			t.First = false
		}
	}
	begun := time.Now()
	measured, err := s.pace(ctx, fronts, order)
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

// runNoise compares how long the answers of clients who behave take with and without one who floods.
func runNoise(ctx context.Context, b *bench) error {
	s, err := openSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	fronts, err := s.openAll(ctx, []front{{name: "headgate", role: ours, open: openHeadgate(rulesForNeighbours)}},
		func(name string) { b.progress.at(0, "noise, opening", name) })
	if err != nil {
		return err
	}
	table := paceTable{Rate: neighbours * neighbourLimit / 2, Connections: neighbours, Rows: []paceRow{
		{Contender: whenQuiet, Title: "nobody floods", Role: ours},
		{Contender: whenFlooded, Title: "one client floods", Role: ours},
	}}
	b.progress.at(0.1, "noise, by turns", "")
	const warming = 1
	err = s.paceInto(ctx, &table, []*openFront{fronts[0], fronts[0]}, warming, paceOrder{
		Connections: neighbours, Clients: neighbours, Rate: table.Rate, Floods: []float64{0, floodTimes * neighbourLimit},
		Windows: warming + noiseWindows*b.sizes.GatewayRounds, Length: b.sizes.NoiseLength,
	})
	if err != nil {
		return err
	}
	if flooded, refused := table.Rows[1].flood(); !b.results.Quick && 10*refused < 9*flooded {
		return fmt.Errorf("%d of the %d requests of the flood were refused: want nearly all", refused, flooded)
	}
	b.results.Noise = &table
	return nil
}

const noiseWindows = 2 // in every round

// fullRate returns how many requests a second a front passes on if it gets as many as it can.
func (s *site) fullRate(ctx context.Context, b *bench, f *openFront) (float64, error) {
	const times = 3
	var rates []float64
	for i := range times {
		b.progress.at(0.1*float64(i)/times, "half-load, looking for the full load", f.name)
		l, err := s.load(ctx, f, loadRequests(), b.sizes.LoadLength)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.name, err)
		}
		rates = append(rates, l.Rate)
	}
	return medianOf(rates), nil
}
