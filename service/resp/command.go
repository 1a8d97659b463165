package resp

import (
	"context"
	"strings"
	"time"
)

// A command is one that clients can send.
type command struct {
	name string // in lower case
	// least and most are how many arguments it has, its name included. most is 0 if there is no bound.
	least, most int
	// decide answers a decision, which may be in flight beside others of the same connection.
	decide func(*clerk, context.Context, [][]byte)
	// run answers all other commands.
	run func(*conn, *clerk, [][]byte)
	// open tells that it needs no token.
	open bool
	// reset tells that it needs one whatever the settings are.
	reset bool
	// immediate says that it is run at once between MULTI and EXEC, not queued.
	immediate bool
	write     bool
	key       int // which argument is a key, 0 if none is
	summary   string
	usage     string
}

// commands returns all commands.
func commands() []*command {
	return []*command{
		{
			name: "cl.throttle", least: 5, most: 6, decide: (*clerk).throttle, write: true, key: 1,
			summary: "Decides a request by a limit, as redis-cell does.", usage: "key max_burst count period [quantity]",
		},
		{
			name: "hg.take", least: 3, most: 4, decide: (*clerk).take, write: true, key: 2,
			summary: "Decides a request by a rule.", usage: "rule key [cost]",
		},
		{
			name: "hg.peek", least: 3, most: 3, decide: (*clerk).peek, key: 2,
			summary: "Says what remains under a rule.", usage: "rule key",
		},
		{
			name: "hg.reset", least: 3, most: 3, run: inTurn((*clerk).reset), reset: true, write: true, key: 2,
			summary: "Forgets what a client has consumed under a rule.", usage: "rule key",
		},
		{
			name: "hg.release", least: 2, most: 2, run: inTurn((*clerk).release), write: true,
			summary: "Gives back the place of a concurrency limit.", usage: "lease",
		},
		{name: "ping", least: 1, most: 2, run: (*conn).ping, summary: "Answers PONG.", usage: "[message]"},
		{name: "echo", least: 2, most: 2, run: (*conn).echo, summary: "Answers with the message.", usage: "message"},
		{
			name: "hello", least: 1, run: (*conn).hello, open: true, summary: "Begins with a version of the protocol.",
			usage: "[protover [AUTH username password] [SETNAME clientname]]",
		},
		{name: "auth", least: 2, run: (*conn).auth, open: true, summary: "Shows the token.", usage: "[username] password"},
		{name: "client", least: 2, run: (*conn).client, summary: "Tells of this connection.", usage: "subcommand [argument ...]"},
		{name: "command", least: 1, run: (*conn).command, summary: "Tells of commands.", usage: "[subcommand [argument ...]]"},
		{name: "config", least: 2, run: (*conn).config, summary: "Tells of settings.", usage: "GET parameter [parameter ...]"},
		{name: "info", least: 1, run: (*conn).info, summary: "Tells of the server.", usage: "[section [section ...]]"},
		{name: "select", least: 2, most: 2, run: (*conn).selectDB, summary: "Chooses database 0, the only one.", usage: "index"},
		{name: "cluster", least: 2, run: (*conn).cluster, summary: "Says that this is no cluster.", usage: "subcommand"},
		{
			name: "multi", least: 1, most: 1, run: (*conn).multi, immediate: true,
			summary: "Starts a transaction: commands are queued until EXEC.",
		},
		{
			name: "exec", least: 1, most: 1, run: (*conn).exec, immediate: true,
			summary: "Runs the queued commands in their order.",
		},
		{name: "discard", least: 1, most: 1, run: (*conn).discard, immediate: true, summary: "Drops the queued commands."},
		{
			name: "reset", least: 1, most: 1, run: (*conn).resetSession, open: true, immediate: true,
			summary: "Resets the connection to its state at the start.",
		},
		{name: "quit", least: 1, run: (*conn).quit, open: true, immediate: true, summary: "Ends the connection."},
	}
}

// inTurn makes a command of what asks a store but must not be in flight beside others.
func inTurn(do func(*clerk, context.Context, [][]byte)) func(*conn, *clerk, [][]byte) {
	return func(_ *conn, k *clerk, args [][]byte) {
		ctx, cancel := context.WithTimeout(k.server.ctx, k.server.config.Limits.DecideTimeout)
		defer cancel()
		do(k, ctx, args)
	}
}

// find returns the command of that name, in whatever case, or nil.
func (s *Server) find(name []byte) *command {
	if len(name) == len(throttleName) && string(name) == throttleName {
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
	throttleName = "CL.THROTTLE"
	maxName      = 16
)

// fold tells whether two words are the same but for their case.
func fold(word []byte, upper string) bool {
	return len(word) == len(upper) && strings.EqualFold(text(word), upper)
}

// obey answers one command.
func (c *conn) obey(k *clerk, j *jobs, args [][]byte) {
	k.commands++
	cmd := c.server.find(args[0])
	if c.transaction != nil && (cmd == nil || !cmd.immediate) {
		j.do(k)
		c.queue(k, cmd, args)
		return
	}
	if refusal := c.refuse(cmd, args); refusal != "" {
		j.do(k)
		if !c.closing { // a connection that speaks HTTP gets no reply
			k.fail(refusal)
		}
		return
	}
	switch {
	case cmd.decide != nil && c.server.borrows:
		cmd.decide(k, c.server.background, args)
	case cmd.decide != nil:
		j.add(cmd, args, c.quiet())
		if len(j.list) == mostJobs {
			j.do(k)
		}
	default:
		j.do(k)
		cmd.run(c, k, args)
	}
}

// refuse returns the error that a command gets instead of being run; empty if it may run.
func (c *conn) refuse(cmd *command, args [][]byte) string {
	switch {
	case cmd == nil:
		return c.unknown(args)
	case !c.authed && !cmd.open:
		return textNoAuth
	case len(args) < cmd.least || cmd.most > 0 && len(args) > cmd.most:
		return "ERR wrong number of arguments for '" + cmd.name + "' command"
	case cmd.reset && !c.proven:
		return "NOPERM resetting needs a token: AUTH with that of the service or the administrator's"
	case c.transaction != nil && cmd.name == "client" && fold(args[1], "REPLY"):
		return "ERR CLIENT REPLY is not allowed between MULTI and EXEC"
	}
	return ""
}

// unknown returns the error for a command that does not exist.
func (c *conn) unknown(args [][]byte) string {
	said := "ERR unknown command '" + printable(args[0]) + "', with args beginning with: "
	if fold(args[0], "POST") || fold(args[0], "HOST:") {
		// A browser was made to send what looks like commands. Redis hangs up too.
		if s := c.server; s.strays.may(time.Since(s.started)) {
			s.config.Logger.Warn("resp: a client speaks HTTP: hung up on", "client", c.remote())
		}
		c.closing = true
		return said
	}
	for _, a := range args[1:] {
		if len(said) > 256 {
			break
		}
		said += "'" + printable(a) + "' "
	}
	return said
}
