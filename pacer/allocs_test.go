package pacer

import (
	"context"
	"testing"
	"time"
)

// Allocates in the names is what picks these tests for a run without the race detector, which allocates itself.
func TestFastPathAllocatesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	fast := PerSecond(1 << 50)
	slow := Rate{1, 24 * time.Hour}
	b := newBursty(t, BurstyOptions{Rate: fast})
	w := newWarmingUp(t, WarmingUpOptions{Rate: fast, WarmUp: time.Millisecond})
	a := newAllowance(t, Rate{1 << 50, time.Hour})
	q := newQueue(t, fast, 10)
	tokens := newTokenQueue(t, TokenQueueOptions{Rate: fast, Capacity: 1 << 40, StartFull: true})
	busy := newBursty(t, BurstyOptions{Rate: slow})
	busy.Reserve(1)
	for _, c := range []struct {
		name string
		do   func() bool
	}{
		{"Bursty.TryAcquire", func() bool { return b.TryAcquire(1, 0) }},
		{"Bursty.Reserve", func() bool { return b.Reserve(1).OK() }},
		{"Bursty.Acquire", func() bool { _, err := b.Acquire(ctx, 1); return err == nil }},
		{"WarmingUp.TryAcquire", func() bool { return w.TryAcquire(1, time.Second) }},
		{"WarmingUp.Acquire", func() bool { _, err := w.Acquire(ctx, 1); return err == nil }},
		{"Allowance.TryAcquire", func() bool { return a.TryAcquire(1, 0) }},
		{"Queue.Acquire", func() bool { _, err := q.Acquire(ctx, 1); return err == nil }},
		{"TokenQueue.TryAcquire", func() bool { return tokens.TryAcquire(1, 0) }},
		{"Bursty.TryAcquire that is refused", func() bool { return !busy.TryAcquire(1, time.Second) }},
	} {
		if !c.do() {
			t.Errorf("%s: got the other answer", c.name)
		}
		// Whole allocations per run: a rare wait of a nanosecond doesn't count.
		if got := testing.AllocsPerRun(1000, func() { c.do() }); got != 0 {
			t.Errorf("%s allocates %v times, want 0", c.name, got)
		}
	}
}

func BenchmarkTryAcquire(b *testing.B) {
	p := newBursty(b, BurstyOptions{Rate: PerSecond(1 << 50)})
	b.ReportAllocs()
	for b.Loop() {
		p.TryAcquire(1, 0)
	}
}

func BenchmarkTryAcquireWarmingUp(b *testing.B) {
	p := newWarmingUp(b, WarmingUpOptions{Rate: PerSecond(1 << 50), WarmUp: time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		p.TryAcquire(1, 0)
	}
}

func BenchmarkTryAcquireRefused(b *testing.B) {
	p := newBursty(b, BurstyOptions{Rate: Rate{1, time.Hour}})
	p.Reserve(1)
	b.ReportAllocs()
	for b.Loop() {
		p.TryAcquire(1, 0)
	}
}
