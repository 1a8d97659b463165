package resp

import "context"

// A transaction holds the commands between MULTI and EXEC. EXEC runs them one after the other.
type transaction struct {
	commands []queued
	bytes    int64 // memory of the arguments, included in Server.held
	failed   bool  // a command was refused: EXEC runs nothing
}

// A queued command waits for EXEC.
type queued struct {
	command *command
	args    [][]byte
}

// Limits of one transaction.
const (
	maxQueued      = 128
	maxQueuedBytes = 64 << 10
	queuedOverhead = 64 // approximate memory of an argument in addition to its bytes
)

// multi replies to MULTI.
func (c *conn) multi(e *executor, _ [][]byte) {
	if c.transaction != nil {
		e.fail("ERR MULTI calls can not be nested")
		return
	}
	c.transaction = &transaction{}
	e.out = append(e.out, textOK...)
}

// discard replies to DISCARD.
func (c *conn) discard(e *executor, _ [][]byte) {
	if c.transaction == nil {
		e.fail("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	e.out = append(e.out, textOK...)
}

// endTransaction drops the queued commands.
func (c *conn) endTransaction() {
	if c.transaction != nil {
		c.server.held.Add(-c.transaction.bytes)
		c.transaction = nil
	}
}

// queue handles a command between MULTI and EXEC. After a command that cannot run, EXEC runs none of the commands.
func (c *conn) queue(e *executor, cmd *command, args [][]byte) {
	t := c.transaction
	if refusal := c.refuse(cmd, args); refusal != "" {
		t.failed = true
		e.fail(refusal)
		return
	}
	size := int64(0)
	for _, a := range args {
		size += int64(len(a)) + queuedOverhead
	}
	if len(t.commands) == maxQueued || t.bytes+size > maxQueuedBytes ||
		c.server.held.Load()+size > int64(c.server.config.Limits.Held) {
		t.failed = true
		e.fail("ERR transaction too long: want at most 128 commands of 64 kB in all")
		return
	}
	c.server.held.Add(size)
	t.bytes += size
	copies := make([][]byte, len(args)) // the arguments point into a buffer of the connection
	for i, a := range args {
		copies[i] = append([]byte(nil), a...)
	}
	t.commands = append(t.commands, queued{cmd, copies})
	e.out = append(e.out, textQueued...)
}

const textQueued = "+QUEUED\r\n"

// exec replies to EXEC: it runs the queued commands in order and returns an array of their replies.
func (c *conn) exec(e *executor, _ [][]byte) {
	t := c.transaction
	if t == nil {
		e.fail("ERR EXEC without MULTI")
		return
	}
	defer c.endTransaction()
	if t.failed {
		e.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	e.out = appendArray(e.out, len(t.commands))
	for _, q := range t.commands {
		e.commands++
		if q.command.decide == nil {
			q.command.run(c, e, q.args)
			continue
		}
		func() {
			ctx, cancel := context.WithTimeout(e.server.ctx, e.server.config.Limits.DecideTimeout)
			defer cancel()
			q.command.decide(e, ctx, q.args)
		}()
	}
}
