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
		{"half-load", 130, runHalfLoad},
		{"refusals", 160, runRefusals},
	}
}

// runProxies compares proxies that get as many requests as they can pass on.
func runProxies(ctx context.Context, b *bench) error {
	return runLoad(ctx, b, "proxies", "Passing requests on", proxyFronts())
}

// runRefusals compares servers that refuse every request.
func runRefusals(ctx context.Context, b *bench) error {
	return runLoad(ctx, b, "refusals", "Refusing every request", refusingFronts())
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

func runLoad(ctx context.Context, b *bench, id, title string, list []front) error {
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
		l, err := s.load(ctx, fronts[i], b.sizes.LoadLength)
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
	table.First = true
	for _, f := range fronts {
		// At half load whoever is measured leaves room on his core, so nobody starves.
		if f.process != nil && inRealTime(f.process.cmd.Process.Pid, measuredPriority) != nil {
			table.First = false
		}
	}
	b.progress.at(0.1, "half-load, all by turns", "")
	begun := time.Now()
	warming := b.sizes.PaceWindows
	measured, err := s.pace(ctx, fronts, table.Rate, warming+b.sizes.GatewayRounds*b.sizes.PaceWindows)
	if err != nil {
		return err
	}
	for i := range table.Rows {
		table.Rows[i].Runs = measured.Windows[i][warming:]
	}
	table.Watched, table.Stalls, table.Stalled = measured.Watched, measured.Stalls, measured.Stalled
	table.Took = time.Since(begun)
	b.results.Pace = &table
	return nil
}

// fullRate returns how many requests a second a front passes on if it gets as many as it can.
func (s *site) fullRate(ctx context.Context, b *bench, f *openFront) (float64, error) {
	const times = 3
	var rates []float64
	for i := range times {
		b.progress.at(0.1*float64(i)/times, "half-load, looking for the full load", f.name)
		l, err := s.load(ctx, f, b.sizes.LoadLength)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.name, err)
		}
		rates = append(rates, l.Rate)
	}
	return medianOf(rates), nil
}
