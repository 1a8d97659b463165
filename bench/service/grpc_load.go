package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/proto/grpcwire"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A grpcJob is a task for the load process.
type grpcJob struct {
	Kind    string // unary, stream, batch, sdk or sdk-alone
	Address string
	Callers int // or in flight
	Length  time.Duration
}

// serveGRPCLoad is the load process. It does one job per connection. It is a separate process, so that it can have its
// own core.
func serveGRPCLoad(l net.Listener, _ string) (func() error, error) {
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() { doGRPCJob(c) })
		}
	})
	return func() error {
		err := l.Close()
		group.Wait()
		return err
	}, nil
}

// A grpcDone is the result of a job.
type grpcDone struct {
	Asking loadResult
	Error  string
}

func doGRPCJob(c net.Conn) {
	defer func() { _ = c.Close() }()
	var job grpcJob
	var done grpcDone
	err := json.NewDecoder(c).Decode(&job)
	if err == nil {
		done.Asking, err = job.run()
	}
	if err != nil {
		done.Error = err.Error()
	}
	_ = json.NewEncoder(c).Encode(done) // the client may have closed the connection
}

// ask returns a function that measures a contestant with the load process.
func (j grpcJob) ask(ctx context.Context, s *site.Site, at site.RunningServer) (loadResult, error) {
	load, err := openGRPCLoad(ctx, s)
	if err != nil {
		return loadResult{}, err
	}
	j.Address, j.Length = at.Address, s.Bench.Sizes.LoadLength
	c, err := net.Dial("tcp", load.Address)
	if err != nil {
		return loadResult{}, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(j.Length + 30*time.Second)); err != nil {
		return loadResult{}, err
	}
	if err := json.NewEncoder(c).Encode(j); err != nil {
		return loadResult{}, err
	}
	var done grpcDone
	if err := json.NewDecoder(c).Decode(&done); err != nil {
		return loadResult{}, fmt.Errorf("the load: %w", err)
	}
	if done.Error != "" {
		return loadResult{}, fmt.Errorf("the load: %s", done.Error)
	}
	return done.Asking, nil
}

// openGRPCLoad returns the load process of a site, and starts it when it is first needed.
func openGRPCLoad(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	if at, ok := grpcLoads.Load(s); ok {
		return at.(site.RunningServer), nil
	}
	at, err := s.StartChild(ctx, s.LoadCore, harness.ChildFlags{Mode: harness.ChildServer, Contender: "grpc-load"})
	if err == nil {
		grpcLoads.Store(s, at)
	}
	return at, err
}

// A raw is an encoded message.
type raw []byte

func (r *raw) MarshalWire(dst []byte) ([]byte, error) { return append(dst, *r...), nil }

func (r *raw) UnmarshalWire(b []byte) error {
	*r = append((*r)[:0], b...)
	return nil
}

func (j *grpcJob) run() (loadResult, error) {
	ctx, end := context.WithTimeout(context.Background(), j.Length+20*time.Second)
	defer end()
	conn, err := grpc.NewClient(j.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return loadResult{}, err
	}
	defer func() { _ = conn.Close() }()
	switch j.Kind {
	case "unary":
		limiter := headgatev1.NewRateLimiterClient(conn)
		return j.callers(func(caller, i int) (int, error) {
			answer, err := limiter.RateLimit(ctx,
				&headgatev1.RateLimitRequest{Client: &headgatev1.Client{UserId: grpcUser(caller*7919 + i)}})
			if err == nil && !answer.Passed {
				err = fmt.Errorf("denied: %v", answer)
			}
			return 1, err
		})
	case "batch":
		return j.batches(ctx, conn)
	case "stream":
		return j.stream(ctx, conn)
	case "sdk", "sdk-alone":
		return j.sdk(ctx)
	default:
		return loadResult{}, fmt.Errorf("no job is named %q", j.Kind)
	}
}

func grpcUser(i int) string { return "user-" + strconv.Itoa(i*2654435761%grpcKeys) }

// callers lets goroutines make calls one after the other. A call returns its number of decisions.
func (j *grpcJob) callers(call func(caller, i int) (int, error)) (loadResult, error) {
	var group sync.WaitGroup
	var ops atomic.Int64
	var failed atomic.Pointer[error]
	all := make([]harness.Histogram, j.Callers)
	start := time.Now()
	stop := start.Add(j.Length)
	for c := range j.Callers {
		group.Go(func() {
			for i, before := 0, time.Now(); before.Before(stop); i++ {
				n, err := call(c, i)
				if err != nil {
					failed.Store(&err)
					return
				}
				now := time.Now()
				all[c].Record(int64(now.Sub(before)))
				before = now
				ops.Add(int64(n))
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return loadResult{}, *err
	}
	return askingOf(all, ops.Load(), time.Since(start)), nil
}

func askingOf(all []harness.Histogram, ops int64, took time.Duration) loadResult {
	var sum harness.Histogram
	for i := range all {
		sum.Merge(&all[i])
	}
	return loadResult{Ops: ops, Took: took, P50: time.Duration(sum.Quantile(0.5)), P99: time.Duration(sum.Quantile(0.99))}
}

// batches requests many decisions per call. The messages are encoded in advance, so that only the server is measured.
func (j *grpcJob) batches(ctx context.Context, conn *grpc.ClientConn) (loadResult, error) {
	var texts []raw
	for from := 0; from < grpcKeys; from += grpcBatch {
		m := wirev1.BatchRateLimitRequest{Requests: make([]wirev1.RateLimitRequest, grpcBatch)}
		for i := range m.Requests {
			m.Requests[i].User = grpcUser(from + i)
		}
		text, err := m.MarshalWire(nil)
		if err != nil {
			return loadResult{}, err
		}
		texts = append(texts, text)
	}
	answers := make([]raw, j.Callers)
	var checked atomic.Bool
	return j.callers(func(caller, i int) (int, error) {
		answer := &answers[caller]
		err := conn.Invoke(ctx, headgatev1.RateLimiter_BatchRateLimit_FullMethodName, &texts[(caller*617+i)%len(texts)],
			answer, grpc.ForceCodecV2(grpcwire.Codec))
		if err == nil && checked.CompareAndSwap(false, true) {
			m := wirev1.BatchRateLimitResponse{Max: grpcBatch}
			err = m.UnmarshalWire(*answer)
			if err == nil && (len(m.Responses) != grpcBatch || !m.Responses[0].Passed || m.Responses[0].Limit != respRate) {
				err = fmt.Errorf("got %d answers, want %d decisions", len(m.Responses), grpcBatch)
			}
		}
		return grpcBatch, err
	})
}

// stream keeps the given number of requests in flight on one stream.
func (j *grpcJob) stream(ctx context.Context, conn *grpc.ClientConn) (loadResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: "Stream", ServerStreams: true, ClientStreams: true}
	s, err := conn.NewStream(ctx, desc, headgatev1.RateLimiter_Stream_FullMethodName, grpc.ForceCodecV2(grpcwire.Codec))
	if err != nil {
		return loadResult{}, err
	}
	// A request is sent when the request with the same id has its response. One goroutine does all of that, to use as
	// little CPU time as possible for the load.
	sent := make([]time.Time, j.Callers)
	var request wirev1.StreamRequest
	send := func(id uint64, i int64) error {
		request.ID, request.Request.User = id, grpcUser(int(i))
		sent[id] = time.Now()
		return s.SendMsg(&request)
	}
	start := time.Now()
	stop := start.Add(j.Length)
	for id := range uint64(j.Callers) {
		if err := send(id, int64(id)); err != nil {
			return loadResult{}, err
		}
	}
	all := make([]harness.Histogram, 1)
	var m wirev1.StreamResponse
	for ops, open := int64(0), j.Callers; ; {
		if err := s.RecvMsg(&m); err != nil {
			return loadResult{}, fmt.Errorf("the stream ended after %v: %w", time.Since(start), err)
		}
		if !m.Response.Passed || m.ID >= uint64(len(sent)) {
			return loadResult{}, fmt.Errorf("got %+v, want it passed", m)
		}
		before := sent[m.ID]
		now := time.Now()
		all[0].Record(int64(now.Sub(before)))
		ops++
		if now.Before(stop) {
			if err := send(m.ID, ops+int64(j.Callers)); err != nil {
				return loadResult{}, err
			}
		} else if open--; open == 0 {
			return askingOf(all, ops, now.Sub(start)), s.CloseSend()
		}
	}
}

// sdk lets goroutines share a client of package client.
func (j *grpcJob) sdk(ctx context.Context) (loadResult, error) {
	o := client.Options{Address: j.Address, Deadline: 20 * time.Second}
	if j.Kind == "sdk-alone" {
		o.BatchWait = -1
	}
	c, err := client.New(o)
	if err != nil {
		return loadResult{}, err
	}
	defer func() { _ = c.Close() }()
	return j.callers(func(caller, i int) (int, error) {
		answer, err := c.RateLimit(ctx, client.Request{User: grpcUser(caller*7919 + i)})
		if err == nil && (!answer.Passed || answer.Degraded) {
			err = fmt.Errorf("got %+v, want it passed", answer)
		}
		return 1, err
	})
}
