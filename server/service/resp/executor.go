package resp

import (
	"context"
	"sync"

	"github.com/headgate/headgate/engine"
)

// An executor executes commands, one after the other, and appends their replies. It is pooled.
type executor struct {
	server  *Server
	out     []byte // the replies so far
	key     []byte
	lease   []byte
	subject subject
	verdict engine.Verdict

	// Counts since the last addCounts.
	commands, allowed, denied, errors int64
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

// addCounts adds the counts to the server's and clears them.
func (e *executor) addCounts() {
	c := &e.server.counts
	for _, n := range [...]struct {
		from *int64
		to   *counter
	}{{&e.commands, &c.commands}, {&e.allowed, &c.allowed}, {&e.denied, &c.denied}, {&e.errors, &c.errors}} {
		if *n.from != 0 {
			n.to.Add(*n.from)
			*n.from = 0
		}
	}
}

// A pendingDecision is a decision of a pipeline that needs a remote store.
type pendingDecision struct {
	command  *command
	args     [][]byte
	executor *executor
	noReply  bool // the client does not want the reply
}

// pipeline are the concurrent decisions of a pipeline.
type pipeline struct {
	pending []pendingDecision
	args    [][]byte // of all of them
	wait    sync.WaitGroup
}

// maxPipeline bounds the concurrent decisions of one connection.
const maxPipeline = 256

// add queues a decision.
func (p *pipeline) add(cmd *command, args [][]byte, quiet bool) {
	from := len(p.args)
	p.args = append(p.args, args...)
	p.pending = append(p.pending, pendingDecision{command: cmd, args: p.args[from:], noReply: quiet})
}

// decideAll makes all queued decisions and appends their replies, in order, to those of e.
func (p *pipeline) decideAll(e *executor) {
	if len(p.pending) == 0 {
		return
	}
	s := e.server
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Limits.DecideTimeout)
	defer cancel()
	for i := range p.pending[1:] {
		next := &p.pending[1+i]
		next.executor = s.newExecutor()
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
	first := &p.pending[0] // decided here, so that a single decision needs no goroutine
	before := len(e.out)
	first.command.decide(e, ctx, first.args)
	if first.noReply {
		e.out = e.out[:before]
	}
	p.wait.Wait()
	for i := range p.pending[1:] {
		next := &p.pending[1+i]
		if !next.noReply {
			e.out = append(e.out, next.executor.out...)
		}
		e.commands += next.executor.commands
		e.allowed += next.executor.allowed
		e.denied += next.executor.denied
		e.errors += next.executor.errors
		s.releaseExecutor(next.executor)
	}
	clear(p.pending)
	p.pending = p.pending[:0]
	clear(p.args)
	p.args = p.args[:0]
}
