package resp

import (
	"context"
	"sync"

	"github.com/headgate/headgate/engine"
)

// A clerk answers commands, one after the other, and has at hand what that takes. Whoever has finished with one puts it back.
type clerk struct {
	server  *Server
	out     []byte // the answers so far
	key     []byte
	lease   []byte
	subject subject
	verdict engine.Verdict

	// What was answered since tally.
	commands, allowed, denied, errors int64
}

// The texts that are sent often.
const (
	textOK         = "+OK\r\n"
	textPong       = "+PONG\r\n"
	textNotInteger = "ERR value is not an integer or out of range"
	textSyntax     = "ERR syntax error"
	textBusy       = "BUSY overloaded, retry after 1 second"
	textNoAuth     = "NOAUTH Authentication required."
)

// fail answers with an error.
func (k *clerk) fail(text string) {
	k.errors++
	k.out = appendError(k.out, text)
}

// tally adds what was answered to what the server has answered.
func (k *clerk) tally() {
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

// A job is a decision of a pipeline that is made behind a network.
type job struct {
	command *command
	args    [][]byte
	clerk   *clerk
	quiet   bool // nobody wants to hear of it
}

// jobs are the decisions of a pipeline that are in flight together.
type jobs struct {
	list []job
	args [][]byte // of all of them
	wait sync.WaitGroup
}

// mostJobs is how many decisions of one connection are in flight together.
const mostJobs = 256

// add puts a decision in line.
func (j *jobs) add(cmd *command, args [][]byte, quiet bool) {
	from := len(j.args)
	j.args = append(j.args, args...)
	j.list = append(j.list, job{command: cmd, args: j.args[from:], quiet: quiet})
}

// do makes all decisions and appends their answers in order to those of k.
func (j *jobs) do(k *clerk) {
	if len(j.list) == 0 {
		return
	}
	s := k.server
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Limits.DecideTimeout)
	defer cancel()
	for i := range j.list[1:] {
		one := &j.list[1+i]
		one.clerk = s.clerk()
		select {
		case s.inFlight <- struct{}{}:
		case <-ctx.Done():
			one.command.decide(one.clerk, ctx, one.args) // there is no time left to ask the store
			continue
		}
		j.wait.Go(func() {
			one.command.decide(one.clerk, ctx, one.args)
			<-s.inFlight
		})
	}
	first := &j.list[0] // is done here, so that one alone needs no goroutine
	before := len(k.out)
	first.command.decide(k, ctx, first.args)
	if first.quiet {
		k.out = k.out[:before]
	}
	j.wait.Wait()
	for i := range j.list[1:] {
		one := &j.list[1+i]
		if !one.quiet {
			k.out = append(k.out, one.clerk.out...)
		}
		k.commands += one.clerk.commands
		k.allowed += one.clerk.allowed
		k.denied += one.clerk.denied
		k.errors += one.clerk.errors
		s.putClerk(one.clerk)
	}
	clear(j.list)
	j.list = j.list[:0]
	clear(j.args)
	j.args = j.args[:0]
}
