package service

import (
	"errors"
	"net"
	"testing"
	"time"
)

// The load gets through to what it is to measure, and notices answers that are not the ones it wants.
func TestTheLoadOfEnvoysProtocol(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve serviceServer
	}{{"headgate", serveRLS}, {"floor", serveRLSFloor}} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			stop, err := c.serve(l, "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}()
			for _, callers := range []int{1, 64} {
				got, err := sendRLS(rlsOrder{Address: l.Addr().String(), Callers: callers, Length: 100 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				if got.Ops < int64(callers) || got.Took < 100*time.Millisecond || got.P50 <= 0 || got.P99 < got.P50 {
					t.Errorf("%d callers: got %+v", callers, got)
				}
			}
			wrong := &unaryLoad{
				path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", flight: 1, answer: []byte("\x08\x02"),
				request: func(dst []byte) []byte { return append(dst, rlsRequest...) },
			}
			if _, err := wrong.run(l.Addr().String(), time.Millisecond); !errors.Is(err, errWrongAnswer) {
				t.Errorf("another answer than is wanted: got %v, want errWrongAnswer", err)
			}
			nowhere := &unaryLoad{path: "/no.such/Method", flight: 1, request: func(dst []byte) []byte { return dst }}
			if _, err := nowhere.run(l.Addr().String(), time.Millisecond); !errors.Is(err, errWrongAnswer) {
				t.Errorf("a method that is not there: got %v, want errWrongAnswer", err)
			}
		})
	}
}
