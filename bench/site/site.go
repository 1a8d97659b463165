package site

import (
	"context"
	"crypto/tls"
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

	"github.com/headgate/headgate/bench/harness"
)

// A Site runs the fronts that are measured. It gives one core to the measured server, and another to the load and the
// upstream. It also runs the upstream.
type Site struct {
	Bench       *harness.Bench
	Dir         string
	FrontCore   int
	LoadCore    int
	Connections int
	Upstream    string // its address
	responder   *process
	orders      io.Writer // what it is to send
	Running     []*process
}

// OpenSite selects the cores and starts the upstream. With a single core, only a quick run is possible, whose figures
// mean nothing.
func OpenSite(ctx context.Context, b *harness.Bench) (*Site, error) {
	cores, err := OwnCores()
	if err != nil {
		return nil, err
	}
	if len(cores) < 2 && !b.Results.Quick {
		return nil, errors.New("there is one core: want one for the gateway and one for its load")
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return nil, err
	}
	s := &Site{
		Bench: b, Dir: dir, LoadCore: cores[0], FrontCore: cores[min(1, len(cores)-1)],
		Connections: b.Sizes.Connections,
	}
	upstream, err := s.StartChild(ctx, s.LoadCore, harness.ChildFlags{Mode: harness.ChildResponder})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("upstream: %w", err)
	}
	s.Upstream, s.responder, s.orders = upstream.Address, upstream.Process, upstream.in
	return s, nil
}

// Close ends everything that the site has started.
func (s *Site) Close() {
	for _, p := range s.Running {
		p.Stop()
	}
	_ = os.RemoveAll(s.Dir) // what is left of it is the system's to clear
}

// A RunningServer has the address and the process of a server. The process is nil if it is measured elsewhere.
type RunningServer struct {
	Address string
	Process *process
	in      io.Writer // what it reads, if that is more than nothing
}

// Listening is printed by a child process when it serves.
type Listening struct{ Address string }

// Start starts a command on a core. It ends with the site.
func (s *Site) Start(core int, cmd *exec.Cmd) (*process, error) {
	if err := comesFirst(cmd); err != nil {
		return nil, err
	}
	p, err := StartProcess(core, cmd)
	if err == nil {
		s.Running = append(s.Running, p)
	}
	return p, err
}

// comesFirst gives a command priority over other programs on its core, such as system services, if that is allowed.
// Without the permission, nice only prints a complaint.
func comesFirst(cmd *exec.Cmd) error {
	nice, err := Program("nice")
	if err == nil {
		cmd.Args = append([]string{nice, "-n", "-20", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = nice
	}
	return err
}

// StartChild starts this program as a server on a core.
func (s *Site) StartChild(ctx context.Context, core int, f harness.ChildFlags) (RunningServer, error) {
	cmd, err := harness.ChildCommand(context.WithoutCancel(ctx), f)
	if err != nil {
		return RunningServer{}, err
	}
	in, err := cmd.StdinPipe() // it serves until this is closed
	if err != nil {
		return RunningServer{}, err
	}
	p, err := s.Start(core, cmd)
	if err != nil {
		return RunningServer{}, err
	}
	var l Listening
	err = p.Await(ctx, func() error { return p.Said.Object(`"Address"`, &l) })
	return RunningServer{Address: l.Address, Process: p, in: in}, err
}

// StartServer starts a program that is measured, with a free port as an argument.
func (s *Site) StartServer(
	ctx context.Context, prepare func(address string) (*exec.Cmd, error),
) (RunningServer, error) {
	return s.StartServerOn(ctx, s.FrontCore, prepare)
}

// StartServerOn starts a program on a core, with a free port as an argument. Another program may take the port first.
func (s *Site) StartServerOn(
	ctx context.Context, core int, prepare func(address string) (*exec.Cmd, error),
) (RunningServer, error) {
	var err error
	for range 5 {
		var at RunningServer
		if at.Address, err = FreeAddress(); err != nil {
			return RunningServer{}, err
		}
		cmd, err := prepare(at.Address)
		if err != nil {
			return RunningServer{}, err
		}
		if at.Process, err = s.Start(core, cmd); err != nil {
			return RunningServer{}, err
		}
		if err = at.Process.Await(ctx, func() error { return Reachable(at.Address) }); !errors.Is(err, errEnded) {
			return at, err
		}
	}
	return RunningServer{}, err
}

// A Load is one measurement of a front at full load.
type Load struct {
	Rate     float64 // requests a second
	Requests int64
	Took     time.Duration
	CPU      time.Duration // that the front has used
	LoadBusy float64       // which part of the time the core of the load and the upstream was busy
	P99      time.Duration // from when a request was sent to its answer; 0 if the load does not tell
}

// An Order describes a load of wrk.
type Order struct {
	Requests    []string
	Connections int
	Secure      bool // over TLS
	Length      time.Duration
}

// Load measures a front.
func (s *Site) Load(ctx context.Context, f *OpenFront, o Order) (Load, error) {
	url := "http://" + f.Address
	if o.Secure {
		url = "https://" + f.Address
	}
	return s.measure(f, o.Length, func(length time.Duration) (WrkRun, error) {
		return s.Wrk(ctx, url, o.Requests, o.Connections, length)
	})
}

// LoadHTTP2 measures a front over HTTP/2 and TLS for the given time.
func (s *Site) LoadHTTP2(ctx context.Context, f *OpenFront, connections int, length time.Duration) (Load, error) {
	return s.measure(f, length, func(length time.Duration) (WrkRun, error) {
		return s.H2Load(ctx, f.Address, connections, length)
	})
}

// measure measures a front under load for the given time.
func (s *Site) measure(
	f *OpenFront, length time.Duration, load func(length time.Duration) (WrkRun, error),
) (l Load, err error) {
	before, err := s.Look(f)
	if err != nil {
		return l, err
	}
	var run WrkRun
	for try := 0; run.Requests == 0; try++ {
		if try == 4 {
			return l, fmt.Errorf("no request was answered in %v", length)
		}
		// The length of a quick run may be too short on a busy machine, so each further try is longer.
		if run, err = load(length << (2 * try)); err != nil {
			return l, err
		}
	}
	after, err := s.Look(f)
	if err != nil {
		return l, err
	}
	if err := f.Fits(run); err != nil {
		return l, err
	}
	return Load{
		Rate: run.PerSecond(), Requests: run.Requests, Took: time.Duration(run.Micros) * time.Microsecond,
		CPU: after.Cpu - before.Cpu, LoadBusy: after.Load.Since(before.Load).Share(),
		P99: time.Duration(run.P99) * time.Microsecond,
	}, nil
}

// A cpuSample is the CPU time that a front has used so far, and the time in which the load's core was busy.
type cpuSample struct {
	Cpu  time.Duration
	Load coreTimes
}

// Look returns the CPU times of a front and of the load's core so far.
func (s *Site) Look(f *OpenFront) (l cpuSample, err error) {
	if f.Process != nil {
		if l.Cpu, err = groupTime(f.Process.Cmd.Process.Pid); err != nil {
			return l, err
		}
	}
	l.Load, err = readCore(s.LoadCore)
	return l, err
}

// Pace measures the response times of fronts at a constant rate. It can be called once per site, because the upstream
// is the load too. The order describes the load.
func (s *Site) Pace(ctx context.Context, fronts []*OpenFront, order PaceOrder) (paceResult, error) {
	order.Warming, order.Patience = s.Bench.Sizes.PaceWarming, 10*time.Second
	order.Cores, order.Spins, order.Into = []int{s.LoadCore, s.FrontCore}, true, filepath.Join(s.Dir, "paced.json")
	for _, f := range fronts {
		order.Addresses = append(order.Addresses, f.Address)
		group := 0
		if f.Process != nil {
			group = f.Process.Cmd.Process.Pid
		}
		order.Groups = append(order.Groups, group)
	}
	if err := json.NewEncoder(s.orders).Encode(order); err != nil {
		return paceResult{}, fmt.Errorf("order a load: %w", err)
	}
	each := time.Duration(order.Windows*len(fronts)) * (order.Warming + order.Length)
	ctx, cancel := context.WithTimeout(ctx, 2*each+order.Patience+startupTime)
	defer cancel()
	for {
		err := s.responder.Said.Object(`"Paced"`, new(paceDone))
		if err == nil {
			break
		}
		select {
		case <-s.responder.Ended:
			return paceResult{}, fmt.Errorf("%w: %s", errEnded, s.responder.Said)
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

// FreeAddress returns an address with a free port.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Reachable returns an error if nothing listens at an address.
func Reachable(address string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

// AskOnce sends one request and returns an error if the response is not the expected one: the upstream's response or a
// denial, depending on want.
func AskOnce(ctx context.Context, address string, want int) error {
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	return askOnce(ctx, t, "http://"+address, want)
}

// AskOnceHTTP2 is like AskOnce, over HTTP/2 and TLS with any certificate.
func AskOnceHTTP2(ctx context.Context, address string, want int) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	t := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer t.CloseIdleConnections()
	return askOnce(ctx, t, "https://"+address, want)
}

func askOnce(ctx context.Context, t *http.Transport, address string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/api/v1/orders/1", http.NoBody)
	if err != nil {
		return err
	}
	r.Host = LoadHost
	r.Header.Set("X-API-Key", "first")
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != want || want == http.StatusOK && string(body) != UpstreamBody {
		return fmt.Errorf("it answers %d %.200q, want %d and what the upstream says", resp.StatusCode, body, want)
	}
	return nil
}
