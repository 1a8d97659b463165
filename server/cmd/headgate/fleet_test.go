package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/fleet"
)

// fleetRules has a limit for each way in which nodes share it. So few units come back in an hour that none does in a
// test.
const fleetRules = `rules:
  - { id: leased, when: { path: /leased }, limits: [100/d], consistency: lease }
  - { id: told, when: { path: /told }, limits: [20/d], consistency: async }
`

const gossipRules = `rules:
  - { id: gossiped, when: { path: /gossiped }, limits: [20/d], consistency: gossip }
  - { id: shared, when: { path: /shared }, limits: [30/d], consistency: gossip, partition: share }
`

// passed reports whether a request passes; it must pass or be denied.
func (c *client) passed(path string) bool {
	c.t.Helper()
	switch response := c.must(path); response.StatusCode {
	case 200:
		return true
	case 429:
		return false
	default:
		c.t.Fatalf("%s: got %s, want 200 or 429", path, response.Status)
		return false
	}
}

// drain sends requests until one is denied, and returns how many passed.
func (c *client) drain(path string) int {
	c.t.Helper()
	const enough = 1000
	for n := range enough {
		if !c.passed(path) {
			return n
		}
	}
	c.t.Fatalf("%s: %d passed and none was denied", path, enough)
	return enough
}

func TestLeasedLimitIsUsedUpExactly(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	args := onFreePort(append(countingIn(t, server), "--rules", rulesFile(t, fleetRules))...)
	a, b := serve(t, args...), serve(t, args...)
	total := 0
	clients := []*client{newClient(t, a.gateway), newClient(t, b.gateway)}
	// What a node holds and does not use goes back a moment later, so that in the end somebody gets it.
	await.NoError(t, "all of the limit to be used", func() error {
		for _, c := range clients {
			total += c.drain("/leased")
		}
		if total < 100 {
			return fmt.Errorf("%d passed, want 100", total)
		}
		return nil
	})
	if total != 100 {
		t.Errorf("%d passed, want 100", total)
	}
	calls := a.metric(`headgate_lease_calls_total{result="ok"}`)
	if calls == 0 || a.metric(`headgate_lease_units_total{kind="granted"}`) == 0 {
		t.Error("leases are not counted")
	}
	if got := a.metric(`headgate_decisions_total{mode="lease",rule="leased",verdict="allow"}`); got == 0 {
		t.Error("decisions are not counted as those of leases")
	}
	await.NoError(t, "both nodes to be known", func() error {
		if live := a.metric(`headgate_fleet_nodes{state="live"}`); live != 2 {
			return fmt.Errorf("%v live, want 2", live)
		}
		return nil
	})
	if code := b.stop(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	await.NoError(t, "the node that left to be gone", func() error {
		if known := a.metric(`headgate_fleet_nodes{state="known"}`); known != 1 {
			return fmt.Errorf("%v known, want 1", known)
		}
		return nil
	})
}

func TestAsyncNodesSyncThroughRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	args := onFreePort("--rules", rulesFile(t, fleetRules), "--store", server.URL())
	a, b := serve(t, args...), serve(t, args...)
	mine, other := newClient(t, a.gateway), newClient(t, b.gateway)
	if !other.passed("/told") { // from now on b asks what others took
		t.Fatal("the first of a day was denied")
	}
	if n := mine.drain("/told"); n > 20 {
		t.Errorf("%d of 20 passed on one node", n)
	}
	await.NoError(t, "the other node to hear of it", func() error {
		if other.passed("/told") {
			return errors.New("it lets pass")
		}
		return nil
	})
	await.NoError(t, "the sync to be measured", func() error {
		if b.metric(`headgate_sync_units_total{kind="applied",mode="async"}`) == 0 || b.metric(`headgate_sync_up{mode="async"}`) != 1 {
			return errors.New("it is not")
		}
		return nil
	})
}

// Nodes that share only a network receive each other's updates. A node with another key is ignored.
func TestNodesGossipWithoutAStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, wrong := filepath.Join(dir, "key.txt"), filepath.Join(dir, "wrong.txt")
	writeFile(t, key, "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n")
	writeFile(t, wrong, "0123456789abcdef")
	node := func(id, key string, join ...string) *process {
		args := onFreePort("--rules", rulesFile(t, gossipRules), "--node-id", id, "--gossip-addr", "127.0.0.1:0", "--gossip-key-file", key)
		if join != nil {
			args = append(args, "--join", strings.Join(join, ","))
		}
		return serve(t, args...)
	}
	a := node("a", key)
	address, _ := a.waitLog("listening")["gossip"].(string)
	b := node("b", key, address)
	for _, p := range []*process{a, b} {
		await.NoError(t, "the nodes to meet", func() error {
			if live := p.metric(`headgate_fleet_nodes{state="live"}`); live != 2 {
				return fmt.Errorf("%v live, want 2", live)
			}
			return nil
		})
	}
	if n := newClient(t, a.gateway).drain("/gossiped"); n != 20 {
		t.Errorf("%d passed on one node, want 20", n)
	}
	other := newClient(t, b.gateway)
	await.NoError(t, "the other node to hear of it", func() error {
		if other.passed("/gossiped") {
			return errors.New("it lets pass")
		}
		return nil
	})

	outsider := node("c", wrong, address)
	await.NoError(t, "the node with the wrong key to be refused", func() error {
		if a.metric(`headgate_gossip_lost_total{reason="wrong_key"}`) == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	if live := a.metric(`headgate_fleet_nodes{state="live"}`); live != 2 {
		t.Errorf("%v nodes besides the one with the wrong key, want 2", live)
	}
	if n := newClient(t, outsider.gateway).drain("/gossiped"); n != 20 {
		t.Errorf("%d passed at the node with the wrong key, want 20", n)
	}

	// One that dies is missed: what is left of the fleet has its share.
	b.signal(syscall.SIGKILL)
	await.NoError(t, "the dead node to be missed", func() error {
		if live := a.metric(`headgate_fleet_nodes{state="live"}`); live != 1 {
			return fmt.Errorf("%v live, want 1", live)
		}
		return nil
	})
	if known := a.metric(`headgate_fleet_nodes{state="known"}`); known != 2 {
		t.Errorf("%v known, want 2", known)
	}
	if n := newClient(t, a.gateway).drain("/shared"); n != 15 {
		t.Errorf("%d of 30 passed on one of two nodes that are cut off, want its share of 15", n)
	}
}

const globalRules = `rules:
  - { id: near, when: { path: /near }, limits: [10/d] }
  - { id: wide, when: { path: /wide }, limits: [20/d], scope: global }
  - { id: leased, when: { path: /leased }, limits: [20/d], scope: global, consistency: lease }
  - { id: told, when: { path: /told }, limits: [20/d], scope: global, consistency: async }
`

// Two regions, each with a Redis of its own and two nodes, and a third Redis that both share. A limit is the region's
// own, or both have it together, whatever the mode inside a region; and the global store may come late.
func TestRegionsShareAGlobalLimit(t *testing.T) {
	t.Parallel()
	globe := redistest.Standalone(t, redistest.Options{})
	globe.Kill()
	rules := rulesFile(t, globalRules)
	var nodes [2][2]*client
	var all [2][2]*process
	for r, region := range []string{"eu", "us"} {
		home := redistest.Standalone(t, redistest.Options{})
		for n := range nodes[r] {
			p := serve(t, onFreePort(append(countingIn(t, home, "fleet: { global_interval: 200ms }"), "--rules", rules,
				"--global-store", globe.URL(), "--region", region, "--node-id", fmt.Sprintf("%s-%d", region, n))...)...)
			all[r][n], nodes[r][n] = p, newClient(t, p.gateway)
		}
	}
	for r := range nodes { // with the globe away, regions decide by themselves
		for range 5 {
			if !nodes[r][0].passed("/near") {
				t.Error("one of the first five was denied")
			}
		}
		if n := 5 + nodes[r][1].drain("/near"); n != 10 {
			t.Errorf("%d passed in one region, want 10", n)
		}
	}
	globe.Restart()
	for _, p := range []*process{all[0][0], all[0][1], all[1][0], all[1][1]} {
		await.NoError(t, "regions to hear of each other", func() error {
			if p.metric(`headgate_sync_up{mode="global"}`) != 1 {
				return errors.New("they do not")
			}
			return nil
		})
	}
	for _, path := range []string{"/wide", "/leased", "/told"} {
		if !nodes[1][0].passed(path) { // from now on that region asks what others took
			t.Errorf("%s: the first of a day was denied", path)
		}
		if n := nodes[0][0].drain(path); n < 15 || n > 20 {
			t.Errorf("%s: %d passed on one node, want about 20", path, n)
		}
		for _, other := range []*client{nodes[0][1], nodes[1][0], nodes[1][1]} {
			await.NoError(t, "another node to deny "+path, func() error {
				if other.passed(path) {
					return errors.New("it lets pass")
				}
				return nil
			})
		}
	}
	_, s := all[1][0].status()
	if s.Fleet == nil || s.Fleet.Live != 2 || len(s.Fleet.Sync) != 2 {
		t.Errorf("got %+v, want two nodes of the region, and sync of async and global", s.Fleet)
	}
}

// Redis is away from the beginning. Nodes that gossip know of each other all the same: policies hold, and each has its
// share.
func TestPoliciesApplyIfRedisIsDownFromTheStart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	server.Kill()
	rules := rulesFile(t, `rules:
  - { id: closed, when: { path: /closed }, limits: [20/d], consistency: async, on_failure: closed }
  - { id: told, when: { path: /told }, limits: [20/d], consistency: async, on_failure: local }
  - { id: leased, when: { path: /leased }, limits: [20/d], consistency: lease, on_failure: local }
  - { id: exact, when: { path: /exact }, limits: [20/d], on_failure: local }
`)
	a := serve(t, onFreePort("--rules", rules, "--store", server.URL(), "--node-id", "a", "--gossip-addr", "127.0.0.1:0")...)
	address, _ := a.waitLog("listening")["gossip"].(string)
	b := serve(t, onFreePort("--rules", rules, "--store", server.URL(), "--node-id", "b", "--gossip-addr", "127.0.0.1:0", "--join", address)...)
	for _, p := range []*process{a, b} {
		await.NoError(t, "the nodes to meet", func() error {
			if live := p.metric(`headgate_fleet_nodes{state="live"}`); live != 2 {
				return fmt.Errorf("%v live, want 2", live)
			}
			return nil
		})
	}
	c := newClient(t, b.gateway)
	if response := c.must("/closed"); response.StatusCode != 503 {
		t.Errorf("closed: got %s, want 503", response.Status)
	}
	for _, path := range []string{"/told", "/leased", "/exact"} {
		if n := c.drain(path); n != 10 {
			t.Errorf("%s: %d of 20 passed on one of two nodes, want its share of 10", path, n)
		}
	}
	if _, s := b.status(); !s.Degraded {
		t.Error("it does not say that it is degraded")
	}
}

// The date of Redis is not this host's. Windows go by the former, and the node says so.
func TestClockSkewToRedisIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{ClockOffset: time.Hour})
	p := serve(t, onFreePort("--rules", rulesFile(t, fleetRules), "--store", server.URL())...)
	await.NoError(t, "the node to know by how much its date is off", func() error {
		if ahead := p.metric(`headgate_sync_clock_ahead_seconds{mode="async"}`); ahead < 3590 || ahead > 3610 {
			return fmt.Errorf("the date is ahead by %v s, want an hour", ahead)
		}
		return nil
	})
	if off := p.metric(`headgate_sync_clocks_off{mode="async"}`); off != 1 {
		t.Errorf("%v nodes are off, want this one", off)
	}
	p.waitLog(fleet.ClockOutOfSync.String())
	if _, s := p.status(); s.Fleet == nil || len(s.Fleet.Sync) != 1 || s.Fleet.Sync[0].SkewedClocks != 1 || s.Fleet.Sync[0].ClockAheadMS < 3590_000 {
		t.Errorf("got %+v, want a date that is off by an hour", s.Fleet)
	}
}
