package demo

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestTrafficOfAMinuteHasGoodNoisyAndBurstyClients(t *testing.T) {
	sent := map[string]int{}
	most := 0
	for second := range 60 {
		inSecond := 0
		for n := second * 10; n < second*10+10; n++ {
			for _, r := range requestsOf(n) {
				sent[r.client]++
				inSecond++
			}
		}
		most = max(most, inSecond)
	}
	if most > 65 {
		t.Errorf("got %d requests in one second, want at most 65", most)
	}
	for client, want := range map[string][2]int{
		"alice": {60, 90}, "bob": {40, 60}, "carol": {110, 130}, "dave": {25, 35}, "noisy": {800, 1000}, "nightly-export": {80, 80},
	} {
		if got := sent[client]; got < want[0] || got > want[1] {
			t.Errorf("%s: got %d requests per minute, want %d to %d", client, got, want[0], want[1])
		}
	}
}

func TestTrafficIsSentOnlyWhileItIsOnAndAllowed(t *testing.T) {
	var allowed atomic.Bool
	arrived := make(chan string, 1000)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed.Load() {
			t.Error("got a request that is not allowed")
		}
		arrived <- r.Host
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer gateway.Close()
	asked := make(chan bool, 1000)
	traffic := &Traffic{URL: gateway.URL, Logger: slog.New(slog.DiscardHandler), Allowed: func() bool {
		asked <- true
		return allowed.Load()
	}}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	var running sync.WaitGroup
	running.Go(func() { traffic.Run(ctx) })
	traffic.Set(true)
	<-asked // nothing is sent yet
	<-asked
	allowed.Store(true)
	select {
	case <-arrived:
	case <-ctx.Done():
		t.Error("no request arrives while traffic is on and allowed")
	}
	traffic.Set(false)
	if traffic.On() {
		t.Error("got on, want off")
	}
	stop()
	running.Wait()
}
