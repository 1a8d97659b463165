package service

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// An rlsOrder is a task for the load process, and an rlsReport its result.
type rlsOrder struct {
	Address string
	Callers int
	Length  time.Duration
}

type rlsReport struct {
	Asking  loadResult
	Failure string
}

// serveRLSLoad is the load process. It reads an order from each connection, and sends the requests.
func serveRLSLoad(l net.Listener, _ string) (func() error, error) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			var order rlsOrder
			report := rlsReport{}
			err = json.NewDecoder(conn).Decode(&order)
			if err == nil {
				report.Asking, err = sendRLS(order)
			}
			if err != nil {
				report.Failure = err.Error()
			}
			_ = json.NewEncoder(conn).Encode(report) // a client that does not get it reports an error
			_ = conn.Close()
		}
	})
	return func() error {
		err := l.Close()
		running.Wait()
		return err
	}, nil
}

// sendRLS sends requests on one connection, with a constant number in flight, like a worker of Envoy.
func sendRLS(o rlsOrder) (loadResult, error) {
	from := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	l := &unaryLoad{
		// OK, and a status
		path: rlspb.RateLimitService_ShouldRateLimit_FullMethodName, flight: o.Callers, answer: []byte("\x08\x01\x12"),
		request: func(dst []byte) []byte {
			dst = append(dst, rlsRequest...)
			for i, user := len(dst)-1, from.IntN(rlsKeys); user > 0; i, user = i-1, user/10 {
				dst[i] = '0' + byte(user%10)
			}
			return dst
		},
	}
	return l.run(o.Address, o.Length)
}

// An rlsLoad is a load process that is started when it is first needed.
type rlsLoad struct {
	callers int
	at      *site.RunningServer
}

func (l *rlsLoad) ask(ctx context.Context, s *site.Site, at site.RunningServer) (a loadResult, err error) {
	if l.at == nil {
		p, err := s.StartChild(ctx, s.LoadCore, harness.ChildFlags{Mode: harness.ChildServer, Contender: "rls-load"})
		if err != nil {
			return a, fmt.Errorf("load: %w", err)
		}
		l.at = &p
	}
	conn, err := net.Dial("tcp", l.at.Address)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	length := s.Bench.Sizes.LoadLength
	if err := conn.SetDeadline(time.Now().Add(length + time.Minute)); err != nil {
		return a, err
	}
	if err := json.NewEncoder(conn).Encode(rlsOrder{Address: at.Address, Callers: l.callers, Length: length}); err != nil {
		return a, err
	}
	var r rlsReport
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return a, fmt.Errorf("load: %w", err)
	}
	if r.Failure != "" {
		return a, fmt.Errorf("load: %s", r.Failure)
	}
	return r.Asking, nil
}
