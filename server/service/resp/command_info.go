package resp

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command replies to COMMAND.
func (c *conn) command(e *executor, args [][]byte) {
	if len(args) == 1 {
		c.commandInfo(e, nil)
		return
	}
	all := c.server.commandList
	sub, rest := args[1], args[2:]
	switch {
	case equalFold(sub, "COUNT") && len(rest) == 0:
		e.out = appendInt(e.out, int64(len(all)))
	case equalFold(sub, "LIST") && len(rest) == 0:
		e.out = appendArray(e.out, len(all))
		for _, cmd := range all {
			e.out = appendBulk(e.out, cmd.name)
		}
	case equalFold(sub, "INFO"):
		c.commandInfo(e, rest)
	case equalFold(sub, "DOCS"):
		c.commandDocs(e, rest)
	case equalFold(sub, "GETKEYS") && len(rest) > 0:
		c.commandKeys(e, rest)
	default:
		e.fail("ERR unknown subcommand or wrong number of arguments for '" + printable(sub) + "'. Try COMMAND HELP.")
	}
}

// commandInfo replies to COMMAND INFO with the named commands, or with all commands if names is empty.
func (c *conn) commandInfo(e *executor, names [][]byte) {
	if len(names) == 0 {
		e.out = appendArray(e.out, len(c.server.commandList))
		for _, cmd := range c.server.commandList {
			e.out = c.appendCommand(e.out, cmd)
		}
		return
	}
	e.out = appendArray(e.out, len(names))
	for _, name := range names {
		if cmd := c.server.lookup(name); cmd != nil {
			e.out = c.appendCommand(e.out, cmd)
		} else {
			e.out = c.appendNullArray(e.out)
		}
	}
}

// appendCommand appends the description of a command: its name, number of arguments and flags, the positions of its
// first and last key, the step between keys, and four empty lists. A negative number of arguments is a minimum.
func (c *conn) appendCommand(dst []byte, cmd *command) []byte {
	dst = appendArray(dst, 10)
	dst = appendBulk(dst, cmd.name)
	arity := cmd.minArgs
	if cmd.maxArgs != cmd.minArgs {
		arity = -arity
	}
	dst = appendInt(dst, int64(arity))
	flags := []string{"fast"}
	switch {
	case cmd.write:
		flags = append(flags, "write")
	case cmd.decide != nil:
		flags = append(flags, "readonly")
	}
	if cmd.auth == authNever {
		flags = append(flags, "no_auth")
	}
	dst = c.appendSet(dst, len(flags))
	for _, f := range flags {
		dst = appendLine(dst, '+', f)
	}
	step := min(cmd.key, 1)
	for _, n := range [...]int{cmd.key, cmd.key, step} {
		dst = appendInt(dst, int64(n))
	}
	for range 4 { // categories, tips, key specifications, subcommands
		dst = appendArray(dst, 0)
	}
	return dst
}

// commandDocs replies to COMMAND DOCS, which redis-cli uses for hints.
func (c *conn) commandDocs(e *executor, names [][]byte) {
	found := c.server.commandList
	if len(names) > 0 {
		found = nil
		for _, name := range names {
			if cmd := c.server.lookup(name); cmd != nil && !slices.Contains(found, cmd) {
				found = append(found, cmd)
			}
		}
	}
	e.out = c.appendMap(e.out, len(found))
	for _, cmd := range found {
		e.out = appendBulk(e.out, cmd.name)
		e.out = c.appendMap(e.out, 4)
		for _, pair := range [...][2]string{
			{"summary", strings.TrimSpace(cmd.summary + " " + cmd.usage)}, {"since", "1.0.0"}, {"group", groupOf(cmd)},
		} {
			e.out = appendBulk(appendBulk(e.out, pair[0]), pair[1])
		}
		e.out = appendArray(appendBulk(e.out, "arguments"), 0)
	}
}

// groupOf returns the command group for COMMAND DOCS, with the names that Redis uses.
func groupOf(cmd *command) string {
	if strings.Contains(cmd.name, ".") {
		return "module"
	}
	return "connection"
}

// commandKeys replies to COMMAND GETKEYS with the key of the command args.
func (c *conn) commandKeys(e *executor, args [][]byte) {
	cmd := c.server.lookup(args[0])
	switch {
	case cmd == nil:
		e.fail("ERR Invalid command specified")
	case len(args) < cmd.minArgs || cmd.maxArgs > 0 && len(args) > cmd.maxArgs:
		e.fail("ERR Invalid number of arguments specified for command")
	case cmd.key == 0:
		e.fail("ERR The command has no key arguments")
	default:
		e.out = appendBulk(appendArray(e.out, 1), args[cmd.key])
	}
}

// settings returns the parameters that CONFIG GET shows, because Redis tools ask for them.
func (s *Server) settings() [][2]string {
	l := &s.config.Limits
	return [][2]string{
		{"appendonly", "no"},
		{"databases", "1"},
		{"maxclients", strconv.Itoa(l.Conns)},
		{"maxmemory", "0"},
		{"proto-max-bulk-len", strconv.Itoa(l.Bulk)},
		{"save", ""},
		{"timeout", strconv.FormatInt(int64(max(l.IdleTimeout, 0)/time.Second), 10)},
	}
}

// config replies to CONFIG GET.
func (c *conn) config(e *executor, args [][]byte) {
	if !equalFold(args[1], "GET") || len(args) < 3 {
		e.fail("ERR CONFIG " + printable(args[1]) +
			" is not supported: use CONFIG GET parameter; settings are changed in the service's own configuration")
		return
	}
	var found [][2]string
	for _, setting := range c.server.settings() {
		for _, pattern := range args[2:] {
			if ok, err := path.Match(strings.ToLower(string(pattern)), setting[0]); ok && err == nil {
				found = append(found, setting)
				break
			}
		}
	}
	e.out = c.appendMap(e.out, len(found))
	for _, setting := range found {
		e.out = appendBulk(appendBulk(e.out, setting[0]), setting[1])
	}
}

// info replies to INFO.
func (c *conn) info(e *executor, args [][]byte) {
	isWanted := func(section string) bool {
		if len(args) == 1 {
			return true
		}
		return slices.ContainsFunc(args[1:], func(a []byte) bool {
			return equalFold(a, section) || equalFold(a, "ALL") || equalFold(a, "DEFAULT") || equalFold(a, "EVERYTHING")
		})
	}
	s := c.server
	stats := s.Stats()
	var b strings.Builder
	addSection := func(name string, lines ...string) {
		if !isWanted(strings.ToUpper(name)) {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + name + "\r\n")
		for _, line := range lines {
			b.WriteString(line + "\r\n")
		}
	}
	addSection("Server",
		"redis_version:"+redisVersion, "server_name:"+serverName, "headgate_version:"+s.config.Version,
		"redis_mode:standalone", "os:"+runtime.GOOS+" "+runtime.GOARCH, fmt.Sprintf("process_id:%d", os.Getpid()),
		fmt.Sprintf("uptime_in_seconds:%d", int(time.Since(s.started).Seconds())))
	addSection("Clients",
		fmt.Sprintf("connected_clients:%d", stats.Open), fmt.Sprintf("maxclients:%d", s.config.Limits.Conns))
	addSection("Stats",
		fmt.Sprintf("total_connections_received:%d", stats.Accepted+stats.Refused),
		fmt.Sprintf("rejected_connections:%d", stats.Refused),
		fmt.Sprintf("total_commands_processed:%d", stats.Commands),
		fmt.Sprintf("total_error_replies:%d", stats.Errors),
		fmt.Sprintf("headgate_allowed:%d", stats.Allowed), fmt.Sprintf("headgate_denied:%d", stats.Denied),
		fmt.Sprintf("headgate_store_failures:%d", stats.StoreFailures))
	addSection("Replication", "role:master", "connected_slaves:0")
	addSection("Cluster", "cluster_enabled:0")
	addSection("Keyspace")
	e.out = c.appendText(e.out, b.String())
}

// redisVersion is the Redis version that clients see. From it they conclude which commands and replies exist.
const redisVersion = "7.0.0"
