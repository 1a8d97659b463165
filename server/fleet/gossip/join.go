package gossip

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

const (
	lookupTimeout = 5 * time.Second
	// maxJoinPause is the longest pause between attempts to join, in probe intervals. The first pause is one interval.
	maxJoinPause = 30
	// maxJoinAddrs is the maximum number of addresses per attempt.
	maxJoinAddrs = 5
)

// A joiner repeatedly joins the configured hosts and lost hosts that are not members.
type joiner struct {
	gossip *Limiter
	mesh   *memberMesh
	ctx    context.Context //nolint:containedctx // ends lookups and attempts when the joiner is closed
	cancel context.CancelFunc

	mu     sync.Mutex // held while it joins
	closed bool
	timer  clock.Timer
	next   time.Duration // when the next attempt is due
	pause  time.Duration // the pause after the next attempt
	live   int           // number of live hosts at the latest check
}

func startJoiner(g *Limiter, m *memberMesh) *joiner {
	j := &joiner{gossip: g, mesh: m, pause: m.options.Probe, live: 1}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	j.mu.Lock()
	defer j.mu.Unlock()
	j.timer = g.clock.AfterFunc(0, j.check)
	return j
}

// close stops the joiner, and waits for the current attempt. That attempt still finishes joining one host.
func (j *joiner) close() {
	j.cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.timer.Stop()
}

// check joins missing hosts, if the next attempt is due.
func (j *joiner) check() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	now := j.gossip.clock.Elapsed()
	if live := j.gossip.Live(); live != j.live { // the membership changed: try again soon
		j.live, j.next, j.pause = live, now, j.mesh.options.Probe
	}
	if now >= j.next {
		j.attempt(now)
	}
	j.timer = j.gossip.clock.AfterFunc(j.mesh.options.Probe, j.check)
}

// attempt joins missing hosts.
func (j *joiner) attempt(now time.Duration) {
	missing, err := j.missing()
	if len(missing) == 0 && err == nil {
		j.next = now + maxJoinPause*j.mesh.options.Probe // names may resolve to other addresses by then
		return
	}
	joined, failed := j.join(missing)
	if joined == 0 && j.gossip.Live() == 1 {
		if err == nil {
			err = failed
		}
		j.gossip.events.notify(NotJoined, strings.Join(missing, ", "), fmt.Sprint(err))
	}
	j.next = j.gossip.clock.Elapsed() + j.pause*3/4 + time.Duration(j.gossip.randomInt(int(j.pause/2)))
	j.pause = min(2*j.pause, maxJoinPause*j.mesh.options.Probe)
}

// join joins up to maxJoinAddrs of the addresses.
func (j *joiner) join(addrs []string) (joined int, err error) {
	j.gossip.shuffle(addrs)
	for _, addr := range addrs[:min(len(addrs), maxJoinAddrs)] {
		if j.ctx.Err() != nil {
			return joined, j.ctx.Err()
		}
		n, failed := j.mesh.list.Join([]string{addr})
		joined += n
		if failed != nil {
			err = failed
			if kind, _ := classifyLog(failed.Error()); kind == WrongKey {
				j.gossip.events.notify(WrongKey, addr, shorten(failed.Error()))
			}
		}
	}
	return joined, err
}

// missing returns the addresses of hosts to join that are not members.
func (j *joiner) missing() (addrs []string, err error) {
	members, dead := j.mesh.members()
	add := func(addr string) {
		if addr != "" && !members[addr] {
			members[addr] = true
			addrs = append(addrs, addr)
		}
	}
	for _, addr := range dead {
		add(addr)
	}
	for _, seed := range j.mesh.options.Join {
		found, failed := j.resolve(seed)
		if failed != nil {
			err = failed
		}
		for _, addr := range found {
			add(addr)
		}
	}
	return addrs, err
}

// resolve returns all addresses of a name.
func (j *joiner) resolve(seed string) ([]string, error) {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(j.ctx, lookupTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	addrs := make([]string, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return addrs, nil
}

// checkSeed validates an address to join.
func checkSeed(seed string) error {
	host, port, err := net.SplitHostPort(seed)
	if err != nil {
		return fmt.Errorf("gossip: Options.Join %q: want host:port: %w", seed, err)
	}
	if n, err := strconv.Atoi(port); host == "" || err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("gossip: Options.Join %q: want a host and a port from 1 to 65535", seed)
	}
	return nil
}
