package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// noise bounds how much clients can make us log, by handshakes that fail and requests that are not HTTP.
type noise struct {
	logger *slog.Logger
	mu     sync.Mutex
	window pace
}

// noiseLines is how many lines a second may be about what clients do wrong.
const noiseLines = 10

func newNoise(logger *slog.Logger) *noise {
	return &noise{logger: logger, window: pace{most: noiseLines}}
}

// handler returns one for slog whose records say where they come from.
func (n *noise) handler(from string) slog.Handler {
	return &noiseHandler{noise: n, inner: n.logger.Handler().WithAttrs([]slog.Attr{slog.String("from", from)})}
}

func (n *noise) log(from string) *slog.Logger { return slog.New(n.handler(from)) }

type noiseHandler struct {
	noise *noise
	inner slog.Handler
}

func (h *noiseHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *noiseHandler) Handle(ctx context.Context, r slog.Record) error {
	h.noise.mu.Lock()
	ok, missed := h.noise.window.next(r.Time)
	h.noise.mu.Unlock()
	if !ok {
		return nil
	}
	if missed > 0 {
		r.AddAttrs(slog.Int64("dropped", missed))
	}
	return h.inner.Handle(ctx, r)
}

func (h *noiseHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &noiseHandler{noise: h.noise, inner: h.inner.WithAttrs(attrs)}
}

func (h *noiseHandler) WithGroup(name string) slog.Handler {
	return &noiseHandler{noise: h.noise, inner: h.inner.WithGroup(name)}
}

// A pace lets so many pass a second.
type pace struct {
	most   int
	second int64
	passed int
	missed int64
}

// next reports whether another may pass, and if so how many might not since the last.
func (p *pace) next(now time.Time) (ok bool, missed int64) {
	if second := now.Unix(); second != p.second {
		p.second, p.passed = second, 0
	}
	if p.passed >= p.most {
		p.missed++
		return false, 0
	}
	p.passed++
	missed, p.missed = p.missed, 0
	return true, missed
}
