package resp

import (
	"context"
	"strings"
	"time"
)

// A command describes one command of the protocol, such as HG.TAKE, and how it is executed.
type command struct {
	name string // in lower case
	// minArgs and maxArgs are the allowed numbers of arguments. They count the name too. A maxArgs of 0 means no maximum.
	minArgs, maxArgs int
	// decide handles a command that makes a decision. Such commands of one connection may run concurrently. Exactly one
	// of decide and run is set.
	decide func(*executor, context.Context, [][]byte)
	// run handles any other command.
	run func(*conn, *executor, [][]byte)
	// auth is the authentication that the command requires.
	auth authRequirement
	// immediate commands also run between MULTI and EXEC, where other commands are queued.
	immediate bool
	write     bool   // the command changes counters
	key       int    // index of the key argument, 0 for none
	summary   string // for COMMAND DOCS
	usage     string // the arguments, for COMMAND DOCS
}

// An authRequirement is the authentication that a command requires.
type authRequirement uint8

const (
	authIfConfigured authRequirement = iota // a token, if Config.Token is set
	authNever                               // none
	authAlways                              // a token, even if Config.Token is not set
)

// commands returns all commands.
func commands() []*command {
	return []*command{
		{
			name: "cl.throttle", minArgs: 5, maxArgs: 6, decide: (*executor).throttle, write: true, key: 1,
			summary: "Checks a request against a limit, as redis-cell does.", usage: "key max_burst count period [quantity]",
		},
		{
			name: "hg.take", minArgs: 3, maxArgs: 4, decide: (*executor).take, write: true, key: 2,
			summary: "Checks a request against a rule.", usage: "rule key [cost]",
		},
		{
			name: "hg.peek", minArgs: 3, maxArgs: 3, decide: (*executor).peek, key: 2,
			summary: "Returns the remaining units of a rule.", usage: "rule key",
		},
		{
			name: "hg.reset", minArgs: 3, maxArgs: 3, run: withTimeout((*executor).reset), auth: authAlways, write: true, key: 2,
			summary: "Resets what a key has consumed under a rule.", usage: "rule key",
		},
		{
			name: "hg.release", minArgs: 2, maxArgs: 2, run: withTimeout((*executor).release), write: true,
			summary: "Frees a slot of a concurrency limit.", usage: "lease",
		},
		{
			name: "hg.renew", minArgs: 2, maxArgs: 2, run: withTimeout((*executor).renew), write: true,
			summary: "Keeps a slot of a concurrency limit for another TTL.", usage: "lease",
		},
		{name: "ping", minArgs: 1, maxArgs: 2, run: (*conn).ping, summary: "Replies PONG.", usage: "[message]"},
		{name: "echo", minArgs: 2, maxArgs: 2, run: (*conn).echo, summary: "Replies with the message.", usage: "message"},
		{
			name: "hello", minArgs: 1, run: (*conn).hello, auth: authNever, summary: "Selects a protocol version.",
			usage: "[protover [AUTH username password] [SETNAME clientname]]",
		},
		{
			name: "auth", minArgs: 2, run: (*conn).auth, auth: authNever, summary: "Authenticates with the token.",
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
		{
			name: "cluster", minArgs: 2, run: (*conn).cluster, summary: "Reports that cluster mode is off.",
			usage: "subcommand",
		},
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
			name: "reset", minArgs: 1, maxArgs: 1, run: (*conn).resetSession, auth: authNever, immediate: true,
			summary: "Resets the connection to its initial state.",
		},
		{name: "quit", minArgs: 1, run: (*conn).quit, auth: authNever, immediate: true, summary: "Ends the connection."},
	}
}

// withTimeout returns the run function of a command that uses a store. The function calls do with a context that ends
// after Limits.DecideTimeout.
func withTimeout(do func(*executor, context.Context, [][]byte)) func(*conn, *executor, [][]byte) {
	return func(_ *conn, e *executor, args [][]byte) {
		ctx, cancel := context.WithTimeout(e.server.decideCtx, e.server.config.Limits.DecideTimeout)
		defer cancel()
		do(e, ctx, args)
	}
}

// lookup returns the command with this name, ignoring case, or nil.
func (s *Server) lookup(name []byte) *command {
	if string(name) == throttleName {
		return s.throttle
	}
	var lower [maxName]byte // on the stack: a lookup allocates nothing
	if len(name) > maxName {
		return nil
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return s.commands[string(lower[:len(name)])]
}

const (
	// throttleName is the name of the most frequent command. Clients usually send it in upper case, so lookup has a fast
	// path for it.
	throttleName = "CL.THROTTLE"
	// maxName is the maximum length of a command's name.
	maxName = 16
)

// equalFold reports whether two words are equal, ignoring case.
func equalFold(word []byte, upper string) bool {
	return len(word) == len(upper) && strings.EqualFold(borrowedString(word), upper)
}

// execute runs one command or queues it. After MULTI, it queues the command in the transaction. Otherwise it queues
// only decisions by a remote store, in p. It makes the decisions in p before it appends any other reply, so that the
// replies keep the order of the commands.
func (c *conn) execute(e *executor, p *pipeline, args [][]byte) {
	e.commandCount++
	cmd := c.server.lookup(args[0])
	if c.transaction != nil && (cmd == nil || !cmd.immediate) {
		p.decideAll(e)
		c.queue(e, cmd, args)
		return
	}
	if refusal := c.refuse(cmd, args); refusal != "" {
		p.decideAll(e)
		if !c.closing { // a client that speaks HTTP gets no reply
			e.fail(refusal)
		}
		return
	}
	switch {
	case cmd.decide != nil && c.server.storeInProcess:
		cmd.decide(e, context.Background(), args) // never waits
	case cmd.decide != nil:
		p.add(cmd, args, c.dropsReply())
		if len(p.pending) == maxPipeline {
			p.decideAll(e)
		}
	default:
		p.decideAll(e)
		cmd.run(c, e, args)
	}
}

// refuse returns the error reply for a command that must not run, or "" if the command may run. If the client speaks
// HTTP, refuse also sets c.closing.
func (c *conn) refuse(cmd *command, args [][]byte) string {
	switch {
	case cmd == nil:
		return c.unknownCommand(args)
	case !c.authenticated && cmd.auth != authNever:
		return textNoAuth
	case len(args) < cmd.minArgs || cmd.maxArgs > 0 && len(args) > cmd.maxArgs:
		return "ERR wrong number of arguments for '" + cmd.name + "' command"
	case cmd.auth == authAlways && !c.tokenSent:
		return "NOPERM " + cmd.name + " needs a token: AUTH with the token of the service or of the administrator"
	case c.transaction != nil && cmd.name == "client" && equalFold(args[1], "REPLY"):
		return "ERR CLIENT REPLY is not allowed between MULTI and EXEC"
	}
	return ""
}

// unknownCommand returns the error reply for an unknown command. If the command is a line of an HTTP request,
// unknownCommand sets c.closing.
func (c *conn) unknownCommand(args [][]byte) string {
	text := "ERR unknown command '" + printable(args[0]) + "', with args beginning with: "
	if equalFold(args[0], "POST") || equalFold(args[0], "HOST:") {
		// A web page may have tricked a browser into sending commands in the body of an HTTP request. Redis closes such
		// connections too.
		if s := c.server; s.httpLog.Allow(time.Second) {
			s.config.Logger.Warn("resp: a client speaks HTTP, connection closed", "client", c.remoteAddr())
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
