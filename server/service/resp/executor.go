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
func (k *executor) fail(text string) {
	k.errors++
	k.out = appendError(k.out, text)
}

// addCounts adds the counts to the server's and clears them.
func (k *executor) addCounts() {
	c := &k.server.counts
	for _, n := range [...]struct {
		from *int64
		to   *counter
	}{{&k.commands, &c.commands}, {&k.allowed, &c.allowed}, {&k.denied, &c.denied}, {&k.errors, &c.errors}} {
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
func (j *pipeline) add(cmd *command, args [][]byte, quiet bool) {
	from := len(j.args)
	j.args = append(j.args, args...)
	j.pending = append(j.pending, pendingDecision{command: cmd, args: j.args[from:], noReply: quiet})
}

// decideAll makes all queued decisions and appends their replies in order to those of k.
func (j *pipeline) decideAll(k *executor) {
	if len(j.pending) == 0 {
		return
	}
	s := k.server
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Limits.DecideTimeout)
	defer cancel()
	for i := range j.pending[1:] {
		next := &j.pending[1+i]
		next.executor = s.newExecutor()
		select {
		case s.inFlight <- struct{}{}:
		case <-ctx.Done():
			next.command.decide(next.executor, ctx, next.args) // the deadline has expired, so this replies with an error
			continue
		}
		j.wait.Go(func() {
			next.command.decide(next.executor, ctx, next.args)
			<-s.inFlight
		})
	}
	first := &j.pending[0] // decided here, so that a single decision needs no goroutine
	before := len(k.out)
	first.command.decide(k, ctx, first.args)
	if first.noReply {
		k.out = k.out[:before]
	}
	j.wait.Wait()
	for i := range j.pending[1:] {
		next := &j.pending[1+i]
		if !next.noReply {
			k.out = append(k.out, next.executor.out...)
		}
		k.commands += next.executor.commands
		k.allowed += next.executor.allowed
		k.denied += next.executor.denied
		k.errors += next.executor.errors
		s.releaseExecutor(next.executor)
	}
	clear(j.pending)
	j.pending = j.pending[:0]
	clear(j.args)
	j.args = j.args[:0]
}
