package chaos

import (
	"math/rand/v2"
	"syscall"
	"time"
)

// A fault breaks something and repairs it.
type fault struct {
	name   string
	begin  func()
	end    func()
	losses int // failovers of Redis that it can cause, each of which may lose what was counted last
}

// faults returns a fault of each kind, with random victims.
func (s *system) faults(random *rand.Rand) []fault {
	node := s.nodes[random.IntN(len(s.nodes))]
	server := s.redis.Servers()[random.IntN(len(s.redis.Servers()))]
	send := func(p *program, signal syscall.Signal) func() { return func() { s.send(p, signal) } }
	delay := func(d time.Duration) func() { return func() { s.link.SetDelay(d) } }
	return []fault{
		{"kill a node", node.during(node.kill), node.after(node.start), 0},
		{"stop a node", node.during(send(node, syscall.SIGSTOP)), node.after(send(node, syscall.SIGCONT)), 0},
		{"kill the rules service", s.rules.kill, s.rules.start, 0},
		{"stop the rules service", send(s.rules, syscall.SIGSTOP), send(s.rules, syscall.SIGCONT), 0},
		{"cut the rules service off", s.link.Cut, s.link.Heal, 0},
		{"hang the rules service", s.link.Blackhole, s.link.Heal, 0},
		{"delay the rules service", delay(300 * time.Millisecond), delay(0), 0},
		{"kill PostgreSQL", s.postgres.Kill, s.postgres.Restart, 0},
		{"kill a Redis server", server.Kill, server.Restart, 2},
		{"pause a Redis server", server.Pause, server.Resume, 2},
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

func (s *system) send(p *program, signal syscall.Signal) {
	if err := p.signal(signal); err != nil {
		s.t.Errorf("%s: %v", p.name, err)
	}
}
