package resp

import "context"

// A transaction contains the commands that a client has sent after MULTI. EXEC runs them one after the other.
type transaction struct {
	commands []queuedCommand
	bytes    int64 // approximate memory of the arguments, included in Server.heldBytes
	aborted  bool  // a command was refused, so EXEC runs none
}

// A queuedCommand waits for EXEC.
type queuedCommand struct {
	command *command
	args    [][]byte
}

// Limits of one transaction.
const (
	maxQueued      = 128      // commands
	maxQueuedBytes = 64 << 10 // memory of their arguments
	queuedOverhead = 64       // approximate memory of an argument in addition to its bytes
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

// endTransaction drops the queued commands, if there is a transaction.
func (c *conn) endTransaction() {
	if c.transaction != nil {
		c.server.heldBytes.Add(-c.transaction.bytes)
		c.transaction = nil
	}
}

// queue handles a command between MULTI and EXEC. If it refuses a command, EXEC later runs none of the commands.
func (c *conn) queue(e *executor, cmd *command, args [][]byte) {
	t := c.transaction
	if refusal := c.refuse(cmd, args); refusal != "" {
		t.aborted = true
		e.fail(refusal)
		return
	}
	size := int64(0)
	for _, a := range args {
		size += int64(len(a)) + queuedOverhead
	}
	if len(t.commands) == maxQueued || t.bytes+size > maxQueuedBytes ||
		c.server.heldBytes.Load()+size > int64(c.server.config.Limits.Held) {
		t.aborted = true
		e.fail("ERR transaction too long: at most 128 commands and 64 kB are allowed")
		return
	}
	c.server.heldBytes.Add(size)
	t.bytes += size
	copies := make([][]byte, len(args)) // the arguments point into a buffer of the connection
	for i, a := range args {
		copies[i] = append([]byte(nil), a...)
	}
	t.commands = append(t.commands, queuedCommand{cmd, copies})
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
	if t.aborted {
		e.fail("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	e.out = appendArray(e.out, len(t.commands))
	for _, queued := range t.commands {
		e.commandCount++
		if queued.command.decide == nil {
			queued.command.run(c, e, queued.args)
			continue
		}
		func() {
			ctx, cancel := context.WithTimeout(e.server.decideCtx, e.server.config.Limits.DecideTimeout)
			defer cancel()
			queued.command.decide(e, ctx, queued.args)
		}()
	}
}
