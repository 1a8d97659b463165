package resp

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/engine"
)

// An executor executes commands one after the other, and collects their replies. Executors are used again for other
// commands.
type executor struct {
	server  *Server
	out     []byte // the replies so far
	key     []byte // buffer for a counter key
	lease   []byte // buffer for a lease
	subject subject
	verdict engine.Verdict

	// Counts since the last addCounts.
	commandCount, allowed, denied, errors int64
}

// Frequent replies.
const (
	textOK         = "+OK\r\n"
	textPong       = "+PONG\r\n"
	textNotInteger = "ERR value is not an integer or out of range"
	textSyntax     = "ERR syntax error"
	textBusy       = "BUSY overloaded, retry after 1 second"
	textNoAuth     = "NOAUTH Authentication required."
)

// fail appends an error reply.
func (e *executor) fail(text string) {
	e.errors++
	e.out = appendLine(e.out, '-', text)
}

// addCounts adds the counts of the executor to the counts of the server, and sets them to 0.
func (e *executor) addCounts() {
	c := &e.server.counts
	for _, count := range [...]struct {
		from *int64
		to   *atomic.Int64
	}{{&e.commandCount, &c.commands}, {&e.allowed, &c.allowed}, {&e.denied, &c.denied}, {&e.errors, &c.errors}} {
		if *count.from != 0 {
			count.to.Add(*count.from)
			*count.from = 0
		}
	}
}

// A pendingDecision is a command that waits for its decision by a remote store.
type pendingDecision struct {
	command  *command
	args     [][]byte
	executor *executor
	noReply  bool // the client has turned replies off
}

// A pipeline collects commands that a client has sent without waiting for replies. Their decisions are then made
// concurrently.
type pipeline struct {
	pending []pendingDecision
	args    [][]byte // the arguments of all pending decisions
	wait    sync.WaitGroup
}

// maxPipeline is the maximum number of concurrent decisions of one connection.
const maxPipeline = 256

// add queues a decision.
func (p *pipeline) add(cmd *command, args [][]byte, noReply bool) {
	start := len(p.args)
	p.args = append(p.args, args...)
	p.pending = append(p.pending, pendingDecision{command: cmd, args: p.args[start:], noReply: noReply})
}

// decideAll makes all queued decisions concurrently. It appends their replies, in the order of the commands, to e.out,
// and adds their counts to those of e.
func (p *pipeline) decideAll(e *executor) {
	if len(p.pending) == 0 {
		return
	}
	s := e.server
	ctx, cancel := context.WithTimeout(s.decideCtx, s.config.Limits.DecideTimeout)
	defer cancel()
	for i := range p.pending[1:] {
		next := &p.pending[1+i]
		next.executor = s.getExecutor()
		select {
		case s.inFlight <- struct{}{}:
		case <-ctx.Done():
			next.command.decide(next.executor, ctx, next.args) // the deadline has expired, so this replies with an error
			continue
		}
		p.wait.Go(func() {
			next.command.decide(next.executor, ctx, next.args)
			<-s.inFlight
		})
	}
	first := &p.pending[0] // decided in this goroutine, so that a single decision needs no further goroutine
	length := len(e.out)
	first.command.decide(e, ctx, first.args)
	if first.noReply {
		e.out = e.out[:length]
	}
	p.wait.Wait()
	for i := range p.pending[1:] {
		next := &p.pending[1+i]
		if !next.noReply {
			e.out = append(e.out, next.executor.out...)
		}
		e.commandCount += next.executor.commandCount
		e.allowed += next.executor.allowed
		e.denied += next.executor.denied
		e.errors += next.executor.errors
		s.putExecutor(next.executor)
	}
	clear(p.pending)
	p.pending = p.pending[:0]
	clear(p.args)
	p.args = p.args[:0]
}
