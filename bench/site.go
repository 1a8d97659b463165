package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A site is the setup in which fronts are measured: a core for the measured server, another for the load and the upstream,
// and the upstream itself.
type site struct {
	bench       *bench
	dir         string
	frontCore   int
	loadCore    int
	connections int
	upstream    string // its address
	responder   *process
	orders      io.Writer // what it is to send
	running     []*process
}

// openSite finds the cores and starts the upstream. One core will do for a quick run, whose numbers mean nothing.
func openSite(ctx context.Context, b *bench) (*site, error) {
	cores, err := ownCores()
	if err != nil {
		return nil, err
	}
	if len(cores) < 2 && !b.results.Quick {
		return nil, errors.New("there is one core: want one for the gateway and one for its load")
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return nil, err
	}
	s := &site{bench: b, dir: dir, loadCore: cores[0], frontCore: cores[min(1, len(cores)-1)], connections: b.sizes.Connections}
	upstream, err := s.startChild(ctx, s.loadCore, childFlags{mode: childResponder})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s.upstream, s.responder, s.orders = upstream.address, upstream.process, upstream.in
	return s, nil
}

// close ends everything that was started here.
func (s *site) close() {
	for _, p := range s.running {
		p.stop()
	}
	_ = os.RemoveAll(s.dir) // what is left of it is the system's to clear
}

// A place is where somebody serves, and the process that does; nil if that is measured elsewhere.
type place struct {
	address string
	process *process
	in      io.Writer // what it reads, if that is more than nothing
}

// listening is what a child says once it serves.
type listening struct{ Address string }

// start starts a command on a core, to be ended with the site.
func (s *site) start(core int, cmd *exec.Cmd) (*process, error) {
	if err := comesFirst(cmd); err != nil {
		return nil, err
	}
	p, err := startProcess(core, cmd)
	if err == nil {
		s.running = append(s.running, p)
	}
	return p, err
}

// comesFirst has a command come before what else runs on its core, the system's housekeeping for one, as far as we have the
// right to say so: nice only complains if not.
func comesFirst(cmd *exec.Cmd) error {
	nice, err := program("nice")
	if err == nil {
		cmd.Args = append([]string{nice, "-n", "-20", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = nice
	}
	return err
}

// startChild starts this program as a server on a core.
func (s *site) startChild(ctx context.Context, core int, f childFlags) (place, error) {
	cmd, err := command(context.WithoutCancel(ctx), f)
	if err != nil {
		return place{}, err
	}
	in, err := cmd.StdinPipe() // it serves until this is closed
	if err != nil {
		return place{}, err
	}
	p, err := s.start(core, cmd)
	if err != nil {
		return place{}, err
	}
	var l listening
	err = p.await(ctx, func() error { return p.said.object(`"Address"`, &l) })
	return place{address: l.Address, process: p, in: in}, err
}

// startServer starts a program that has to be told its port, on a free one that another program may take first.
func (s *site) startServer(ctx context.Context, prepare func(address string) (*exec.Cmd, error)) (place, error) {
	var err error
	for range 5 {
		var at place
		if at.address, err = freeAddress(); err != nil {
			return place{}, err
		}
		cmd, err := prepare(at.address)
		if err != nil {
			return place{}, err
		}
		if at.process, err = s.start(s.frontCore, cmd); err != nil {
			return place{}, err
		}
		if err = at.process.await(ctx, func() error { return reachable(at.address) }); !errors.Is(err, errEnded) {
			return at, err
		}
	}
	return place{}, err
}

// A load is one measurement of a front that gets as many requests as it answers.
type load struct {
	Rate     float64 // requests a second
	Requests int64
	Took     time.Duration
	CPU      time.Duration // that the front has used
	LoadBusy float64       // which part of the time the core of the load and the upstream was busy
}

// load measures a front for so long.
func (s *site) load(ctx context.Context, f *openFront, requests []string, length time.Duration) (l load, err error) {
	before, err := s.look(f)
	if err != nil {
		return l, err
	}
	var run wrkRun
	for try := 0; run.Requests == 0; try++ {
		if try == 4 {
			return l, fmt.Errorf("no request was answered in %v", length)
		}
		// The length of a quick run is over soon on a machine that has much else to do.
		if run, err = s.wrk(ctx, f.address, requests, s.connections, length<<(2*try)); err != nil {
			return l, err
		}
	}
	after, err := s.look(f)
	if err != nil {
		return l, err
	}
	if err := f.fits(run); err != nil {
		return l, err
	}
	return load{
		Rate: run.perSecond(), Requests: run.Requests, Took: time.Duration(run.Micros) * time.Microsecond,
		CPU: after.cpu - before.cpu, LoadBusy: after.load.since(before.load).share(),
	}, nil
}

// A look is what a front has used so far, and how busy the load's core has been.
type look struct {
	cpu  time.Duration
	load coreTimes
}

func (s *site) look(f *openFront) (l look, err error) {
	if f.process != nil {
		if l.cpu, err = groupTime(f.process.cmd.Process.Pid); err != nil {
			return l, err
		}
	}
	l.load, err = readCore(s.loadCore)
	return l, err
}

// pace measures how long the answers of fronts take at a rate, once in the life of a site. The upstream is the load as well. The
// order says what there is to say of the load itself.
func (s *site) pace(ctx context.Context, fronts []*openFront, order paceOrder) (paceResult, error) {
	order.Warming, order.Patience = s.bench.sizes.PaceWarming, 10*time.Second
	order.Cores, order.Spins, order.Into = []int{s.loadCore, s.frontCore}, true, filepath.Join(s.dir, "paced.json")
	for _, f := range fronts {
		order.Addresses = append(order.Addresses, f.address)
	}
	if err := json.NewEncoder(s.orders).Encode(order); err != nil {
		return paceResult{}, fmt.Errorf("order a load: %w", err)
	}
	each := time.Duration(order.Windows*len(fronts)) * (order.Warming + order.Length)
	ctx, cancel := context.WithTimeout(ctx, 2*each+order.Patience+startupTime)
	defer cancel()
	for {
		err := s.responder.said.object(`"Paced"`, new(paceDone))
		if err == nil {
			break
		}
		select {
		case <-s.responder.ended:
			return paceResult{}, fmt.Errorf("%w: %s", errEnded, s.responder.said)
		case <-ctx.Done():
			return paceResult{}, fmt.Errorf("no load was measured: %w: %w", ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	var measured paceResult
	text, err := os.ReadFile(order.Into)
	if err == nil {
		err = json.Unmarshal(text, &measured)
	}
	return measured, err
}

// freeAddress returns an address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func reachable(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// askOnce sends one request and returns an error if the answer is not as it should be: the upstream's, or a refusal.
func askOnce(ctx context.Context, address string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/orders/1", http.NoBody)
	if err != nil {
		return err
	}
	r.Host = loadHost
	r.Header.Set("X-API-Key", "first")
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != want || want == http.StatusOK && string(body) != upstreamBody {
		return fmt.Errorf("it answers %d %.200q, want %d and what the upstream says", resp.StatusCode, body, want)
	}
	return nil
}
