package resp

import (
	"context"
	"strings"
	"time"
)

// A command is a command that clients can send.
type command struct {
	name string // in lower case
	// minArgs and maxArgs bound the number of arguments, including the name. maxArgs is 0 if there is no bound.
	minArgs, maxArgs int
	// decide executes a decision, possibly concurrently with others of the same connection.
	decide func(*executor, context.Context, [][]byte)
	// run executes all other commands.
	run func(*conn, *executor, [][]byte)
	// noToken commands need no token.
	noToken bool
	// needsToken commands need a token even if the server requires none.
	needsToken bool
	// immediate commands run at once between MULTI and EXEC; others are queued.
	immediate bool
	write     bool
	key       int // index of the key argument, 0 for none
	summary   string
	usage     string
}

// commands returns all commands.
func commands() []*command {
	return []*command{
		{
			name: "cl.throttle", minArgs: 5, maxArgs: 6, decide: (*executor).throttle, write: true, key: 1,
			summary: "Decides a request by a limit, as redis-cell does.", usage: "key max_burst count period [quantity]",
		},
		{
			name: "hg.take", minArgs: 3, maxArgs: 4, decide: (*executor).take, write: true, key: 2,
			summary: "Decides a request by a rule.", usage: "rule key [cost]",
		},
		{
			name: "hg.peek", minArgs: 3, maxArgs: 3, decide: (*executor).peek, key: 2,
			summary: "Returns the remaining units of a rule.", usage: "rule key",
		},
		{
			name: "hg.reset", minArgs: 3, maxArgs: 3, run: sequential((*executor).reset), needsToken: true, write: true, key: 2,
			summary: "Resets the consumption of a client under a rule.", usage: "rule key",
		},
		{
			name: "hg.release", minArgs: 2, maxArgs: 2, run: sequential((*executor).release), write: true,
			summary: "Frees the slot of a concurrency limit.", usage: "lease",
		},
		{
			name: "hg.renew", minArgs: 2, maxArgs: 2, run: sequential((*executor).renew), write: true,
			summary: "Holds the slot of a concurrency limit for another TTL.", usage: "lease",
		},
		{name: "ping", minArgs: 1, maxArgs: 2, run: (*conn).ping, summary: "Replies PONG.", usage: "[message]"},
		{name: "echo", minArgs: 2, maxArgs: 2, run: (*conn).echo, summary: "Replies with the message.", usage: "message"},
		{
			name: "hello", minArgs: 1, run: (*conn).hello, noToken: true, summary: "Selects a protocol version.",
			usage: "[protover [AUTH username password] [SETNAME clientname]]",
		},
		{
			name: "auth", minArgs: 2, run: (*conn).auth, noToken: true, summary: "Authenticates with the token.",
			usage: "[username] password",
		},
		{
			name: "client", minArgs: 2, run: (*conn).client, summary: "Describes this connection.",
			usage: "subcommand [argument ...]",
		},
		{
			name: "command", minArgs: 1, run: (*conn).command, summary: "Describes commands.",
			usage: "[subcommand [argument ...]]",
		},
		{
			name: "config", minArgs: 2, run: (*conn).config, summary: "Returns settings.",
			usage: "GET parameter [parameter ...]",
		},
		{name: "info", minArgs: 1, run: (*conn).info, summary: "Describes the server.", usage: "[section [section ...]]"},
		{
			name: "select", minArgs: 2, maxArgs: 2, run: (*conn).selectDB, summary: "Selects database 0, the only one.",
			usage: "index",
		},
		{name: "cluster", minArgs: 2, run: (*conn).cluster, summary: "Replies that this is no cluster.", usage: "subcommand"},
		{
			name: "multi", minArgs: 1, maxArgs: 1, run: (*conn).multi, immediate: true,
			summary: "Starts a transaction: commands are queued until EXEC.",
		},
		{
			name: "exec", minArgs: 1, maxArgs: 1, run: (*conn).exec, immediate: true,
			summary: "Runs the queued commands in order.",
		},
		{
			name: "discard", minArgs: 1, maxArgs: 1, run: (*conn).discard, immediate: true,
			summary: "Drops the queued commands.",
		},
		{
			name: "reset", minArgs: 1, maxArgs: 1, run: (*conn).resetSession, noToken: true, immediate: true,
			summary: "Resets the connection to its state at the start.",
		},
		{name: "quit", minArgs: 1, run: (*conn).quit, noToken: true, immediate: true, summary: "Ends the connection."},
	}
}

// sequential returns a command that uses a store but does not run concurrently with others.
func sequential(do func(*executor, context.Context, [][]byte)) func(*conn, *executor, [][]byte) {
	return func(_ *conn, e *executor, args [][]byte) {
		ctx, cancel := context.WithTimeout(e.server.ctx, e.server.config.Limits.DecideTimeout)
		defer cancel()
		do(e, ctx, args)
	}
}

// lookup returns the command of that name, ignoring case, or nil.
func (s *Server) lookup(name []byte) *command {
	if string(name) == throttleName {
		return s.throttle
	}
	var lower [maxName]byte
	if len(name) > maxName {
		return nil
	}
	for i, c := range name {
		if c-'A' <= 'Z'-'A' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return s.commands[string(lower[:len(name)])]
}

const (
	// throttleName is the name of the most frequent command, as clients usually write it.
	throttleName = "CL.THROTTLE"
	// maxName is the length of the longest name.
	maxName = 16
)

// equalFold reports whether two words are equal, ignoring case.
func equalFold(word []byte, upper string) bool {
	return len(word) == len(upper) && strings.EqualFold(borrowedString(word), upper)
}

// execute executes one command.
func (c *conn) execute(e *executor, p *pipeline, args [][]byte) {
	e.commands++
	cmd := c.server.lookup(args[0])
	if c.transaction != nil && (cmd == nil || !cmd.immediate) {
		p.decideAll(e)
		c.queue(e, cmd, args)
		return
	}
	if refusal := c.refuse(cmd, args); refusal != "" {
		p.decideAll(e)
		if !c.closing { // a connection that speaks HTTP gets no reply
			e.fail(refusal)
		}
		return
	}
	switch {
	case cmd.decide != nil && c.server.storeBorrowsKeys:
		cmd.decide(e, c.server.background, args)
	case cmd.decide != nil:
		p.add(cmd, args, c.noReply())
		if len(p.pending) == maxPipeline {
			p.decideAll(e)
		}
	default:
		p.decideAll(e)
		cmd.run(c, e, args)
	}
}

// refuse returns the error that a command gets instead of being executed; empty if it may run.
func (c *conn) refuse(cmd *command, args [][]byte) string {
	switch {
	case cmd == nil:
		return c.unknownCommand(args)
	case !c.authed && !cmd.noToken:
		return textNoAuth
	case len(args) < cmd.minArgs || cmd.maxArgs > 0 && len(args) > cmd.maxArgs:
		return "ERR wrong number of arguments for '" + cmd.name + "' command"
	case cmd.needsToken && !c.proven:
		return "NOPERM reset needs a token: AUTH with the token of the service or of the administrator"
	case c.transaction != nil && cmd.name == "client" && equalFold(args[1], "REPLY"):
		return "ERR CLIENT REPLY is not allowed between MULTI and EXEC"
	}
	return ""
}

// unknownCommand returns the error for an unknown command.
func (c *conn) unknownCommand(args [][]byte) string {
	text := "ERR unknown command '" + printable(args[0]) + "', with args beginning with: "
	if equalFold(args[0], "POST") || equalFold(args[0], "HOST:") {
		// A browser was tricked into sending text that looks like commands. Redis closes such connections too.
		if s := c.server; s.httpLog.Allow(time.Second) {
			s.config.Logger.Warn("resp: a client speaks HTTP, connection closed", "client", c.remote())
		}
		c.closing = true
		return text
	}
	for _, a := range args[1:] {
		if len(text) > 256 {
			break
		}
		text += "'" + printable(a) + "' "
	}
	return text
}
