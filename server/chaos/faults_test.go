package chaos

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// A fault breaks something and repairs it.
type fault struct {
	name   string
	begin  func()
	end    func()
	losses int // failovers and clock jumps of Redis that it can cause, each of which may lose what was counted last
}

// faults returns a fault of each kind, with random victims.
func (s *system) faults(random *rand.Rand) []fault {
	return slices.Concat(s.nodeFaults(random), s.rulesFaults(), s.redisFaults(random))
}

func (s *system) nodeFaults(random *rand.Rand) []fault {
	node := s.nodes[random.IntN(len(s.nodes))]
	on := func(do func(*program)) func() { return func() { do(node) } }
	jump := []time.Duration{-time.Minute, time.Minute}[random.IntN(2)]
	list := []fault{
		{"kill a node", node.during(node.kill), node.after(node.start), 0},
		{
			"stop a node", node.during(func() { s.send(node, syscall.SIGSTOP) }),
			node.after(func() { s.send(node, syscall.SIGCONT) }), 0,
		},
		{"take a node's descriptors", node.flaw(on(s.takeDescriptors)), node.unflaw(on(s.giveDescriptors)), 0},
		{"move a node's clock", func() { s.moveClock(node, jump) }, func() { s.moveClock(node, 0) }, 0},
		{"take a node's memory", node.flaw(on(s.takeMemory)), node.unflaw(on(s.giveMemory)), 0},
	}
	if node.disk != "" {
		list = append(list, fault{"fill a node's disk", on(s.fillDisk), on(s.emptyDisk), 0})
	}
	return list
}

func (s *system) rulesFaults() []fault {
	list := []fault{
		{"kill the rules service", s.rules.kill, s.rules.start, 0},
		{
			"stop the rules service", func() { s.send(s.rules, syscall.SIGSTOP) },
			func() { s.send(s.rules, syscall.SIGCONT) }, 0,
		},
		{"cut the rules service off", s.link.Cut, s.link.Heal, 0},
		{"hang the rules service", s.link.Blackhole, s.link.Heal, 0},
		{
			"delay the rules service", func() { s.link.SetDelay(300 * time.Millisecond) },
			func() { s.link.SetDelay(0) }, 0,
		},
		{"kill PostgreSQL", s.postgres.Kill, s.postgres.Restart, 0},
	}
	if s.rules.disk != "" {
		list = append(list, fault{
			"fill the rules service's disk", func() { s.fillDisk(s.rules) }, func() { s.emptyDisk(s.rules) }, 0,
		})
	}
	return list
}

func (s *system) redisFaults(random *rand.Rand) []fault {
	i := random.IntN(len(s.networks))
	server, network := s.redis.Servers()[i], s.networks[i]
	jump := []time.Duration{-time.Minute, time.Minute}[random.IntN(2)]
	restart := func() {
		server.Restart()
		s.announce(i)
	}
	return []fault{
		{"kill a Redis server", server.Kill, restart, 2},
		{"pause a Redis server", server.Pause, server.Resume, 2},
		{"cut a Redis server off", network.Cut, network.Heal, 2},
		{"hang a Redis server's network", network.Blackhole, network.Heal, 2},
		{
			"delay a Redis server", func() { network.SetDelay(30 * time.Millisecond) },
			func() { network.SetDelay(0) }, 0,
		},
		{
			"move a Redis server's clock", func() { server.MoveClock(jump) },
			func() { server.MoveClock(0) }, 4,
		},
	}
}

// during marks a node as broken and breaks it.
func (p *program) during(do func()) func() {
	return func() {
		p.broken.Add(1)
		do()
	}
}

// after repairs a node. It stays marked until it listens.
func (p *program) after(do func()) func() {
	return func() {
		do()
		p.awaitListening()
		p.broken.Add(-1)
	}
}

// flaw marks a node as one that may refuse connections, and breaks it.
func (p *program) flaw(do func()) func() {
	return func() {
		p.flawed.Add(1)
		do()
	}
}

// unflaw repairs such a node.
func (p *program) unflaw(do func()) func() {
	return func() {
		do()
		p.awaitListening()
		p.flawed.Add(-1)
	}
}

func (s *system) send(p *program, signal syscall.Signal) {
	if err := p.signal(signal); err != nil {
		s.t.Errorf("%s: %v", p.name, err)
	}
}
