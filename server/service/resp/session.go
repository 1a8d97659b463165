package resp

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/headgate/headgate/server/service"
)

// A session is the state of a connection that the client sets with commands.
type session struct {
	proto         int  // the version of RESP: 2 or 3
	authenticated bool // the client may send commands: it has sent a token, or needs none
	tokenSent     bool // the client has sent a valid token
	name          string
	lib           string
	libVersion    string

	replyMode replyMode
}

// A replyMode is what the client has set with CLIENT REPLY.
type replyMode uint8

const (
	replyOn replyMode = iota
	replyOff
	replySkipNext // no reply to the next command
	replySkip     // no reply to this command
)

// dropsReply reports whether the client gets no reply to the current command.
func (s *session) dropsReply() bool { return s.replyMode == replyOff || s.replyMode == replySkip }

// reset gives the session its initial state.
func (s *session) reset(server *Server) {
	*s = session{proto: 2, authenticated: server.config.Token == nil}
}

func (c *conn) ping(e *executor, args [][]byte) {
	if len(args) == 2 {
		e.out = appendBulk(e.out, args[1])
		return
	}
	e.out = append(e.out, textPong...)
}

func (c *conn) echo(e *executor, args [][]byte) { e.out = appendBulk(e.out, args[1]) }

// auth replies to AUTH [username] token. The username is ignored.
func (c *conn) auth(e *executor, args [][]byte) {
	switch {
	case len(args) > 3:
		e.fail(textSyntax)
	case !c.server.tokens.Any() && len(args) == 2:
		e.fail("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	case !c.server.tokens.Any(), c.checkToken(e, args[len(args)-1]):
		e.out = append(e.out, textOK...)
	}
}

const textWrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// checkToken checks a token. If it is invalid, checkToken appends an error reply and returns false.
func (c *conn) checkToken(e *executor, token []byte) bool {
	addr := service.AddrOf(c.net.RemoteAddr())
	err := c.server.tokens.Check(context.Background(), string(token), addr, nil)
	if err == nil {
		c.authenticated, c.tokenSent = true, true
		return true
	}
	c.server.counts.refusedTokens.Add(1)
	var tooMany *service.TooManyLoginsError
	if errors.As(err, &tooMany) {
		e.fail("ERR " + tooMany.Error())
	} else {
		e.fail(textWrongPass)
	}
	return false
}

// hello replies to HELLO [protover [AUTH username token] [SETNAME name]].
func (c *conn) hello(e *executor, args [][]byte) {
	proto, name, hasName := c.proto, "", false
	rest := args[1:]
	if len(rest) > 0 {
		version, ok := readInt(rest[0])
		if !ok {
			e.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			e.fail("NOPROTO unsupported protocol version")
			return
		}
		proto, rest = int(version), rest[1:]
	}
	var token []byte
	for len(rest) > 0 {
		switch {
		case equalFold(rest[0], "AUTH") && len(rest) >= 3:
			token, rest = rest[2], rest[3:]
		case equalFold(rest[0], "SETNAME") && len(rest) >= 2:
			if !isName(rest[1]) {
				e.fail(textBadName)
				return
			}
			name, hasName, rest = string(rest[1]), true, rest[2:]
		default:
			e.fail("ERR Syntax error in HELLO option '" + printable(rest[0]) + "'")
			return
		}
	}
	if token != nil && c.server.tokens.Any() && !c.checkToken(e, token) {
		return
	}
	if !c.authenticated {
		e.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> " +
			"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.proto = proto
	if hasName {
		c.name = name
	}
	e.out = c.appendMap(e.out, 7)
	for _, pair := range [...][2]string{{"server", serverName}, {"version", redisVersion}} {
		e.out = appendBulk(appendBulk(e.out, pair[0]), pair[1])
	}
	e.out = appendInt(appendBulk(e.out, "proto"), int64(c.proto))
	e.out = appendInt(appendBulk(e.out, "id"), c.id)
	for _, pair := range [...][2]string{{"mode", "standalone"}, {"role", "master"}} {
		e.out = appendBulk(appendBulk(e.out, pair[0]), pair[1])
	}
	e.out = appendArray(appendBulk(e.out, "modules"), 0)
}

const serverName = "headgate"

func (c *conn) quit(e *executor, _ [][]byte) {
	e.out = append(e.out, textOK...)
	c.closing = true
}

func (c *conn) resetSession(e *executor, _ [][]byte) {
	c.reset(c.server)
	c.endTransaction()
	e.out = appendLine(e.out, '+', "RESET")
}

func (c *conn) selectDB(e *executor, args [][]byte) {
	switch index, ok := readInt(args[1]); {
	case !ok:
		e.fail(textNotInteger)
	case index != 0:
		e.fail("ERR DB index is out of range")
	default:
		e.out = append(e.out, textOK...)
	}
}

func (c *conn) cluster(e *executor, _ [][]byte) {
	e.fail("ERR This instance has cluster support disabled")
}

const textBadName = "ERR Client names cannot contain spaces, newlines or special characters."

// isName reports whether b is a valid name of a connection or library: at most 256 printable ASCII characters without
// spaces. It may be empty.
func isName(b []byte) bool {
	const maxLength = 256
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return len(b) <= maxLength
}

// client replies to CLIENT. Even CLIENT LIST shows a client only its own connection.
func (c *conn) client(e *executor, args [][]byte) {
	sub, rest := args[1], args[2:]
	switch {
	case equalFold(sub, "ID") && len(rest) == 0:
		e.out = appendInt(e.out, c.id)
	case equalFold(sub, "GETNAME") && len(rest) == 0:
		if c.name == "" {
			e.out = c.appendNull(e.out)
			return
		}
		e.out = appendBulk(e.out, c.name)
	case equalFold(sub, "SETNAME") && len(rest) == 1:
		if !isName(rest[0]) {
			e.fail(textBadName)
			return
		}
		c.name = string(rest[0])
		e.out = append(e.out, textOK...)
	case equalFold(sub, "SETINFO") && len(rest) == 2:
		c.setInfo(e, rest[0], rest[1])
	case equalFold(sub, "INFO") && len(rest) == 0, equalFold(sub, "LIST"):
		e.out = c.appendText(e.out, c.describe())
	case equalFold(sub, "REPLY") && len(rest) == 1:
		c.setReplyMode(e, rest[0])
	case (equalFold(sub, "NO-EVICT") || equalFold(sub, "NO-TOUCH")) && len(rest) == 1 &&
		(equalFold(rest[0], "ON") || equalFold(rest[0], "OFF")),
		equalFold(sub, "TRACKING") && len(rest) >= 1 && (equalFold(rest[0], "ON") || equalFold(rest[0], "OFF")):
		// These settings are about evicting and caching values, which this server does not do.
		e.out = append(e.out, textOK...)
	case equalFold(sub, "GETREDIR") && len(rest) == 0:
		e.out = appendInt(e.out, -1)
	default:
		e.fail("ERR unknown subcommand or wrong number of arguments for '" + printable(sub) + "'. Try CLIENT HELP.")
	}
}

// setInfo replies to CLIENT SETINFO. Client libraries tell their name and version with this command.
func (c *conn) setInfo(e *executor, option, value []byte) {
	if !isName(value) {
		e.fail("ERR " + printable(option) + " cannot contain spaces, newlines or special characters.")
		return
	}
	switch {
	case equalFold(option, "LIB-NAME"):
		c.lib = string(value)
	case equalFold(option, "LIB-VER"):
		c.libVersion = string(value)
	default:
		e.fail("ERR Unrecognized option '" + printable(option) + "'")
		return
	}
	e.out = append(e.out, textOK...)
}

// setReplyMode replies to CLIENT REPLY. OFF and SKIP get no reply themselves.
func (c *conn) setReplyMode(e *executor, mode []byte) {
	switch {
	case equalFold(mode, "ON"):
		c.replyMode = replyOn
		e.out = append(e.out, textOK...)
	case equalFold(mode, "OFF"):
		c.replyMode = replyOff
	case equalFold(mode, "SKIP"):
		if c.replyMode != replyOff {
			c.replyMode = replySkipNext
		}
	default:
		e.fail(textSyntax)
	}
}

// describe returns the text of CLIENT INFO.
func (c *conn) describe() string {
	var b bytes.Buffer
	b.WriteString("id=" + strconv.FormatInt(c.id, 10))
	b.WriteString(" addr=" + c.remoteAddr() + " laddr=" + c.net.LocalAddr().String())
	b.WriteString(" name=" + c.name + " db=0 flags=N resp=" + strconv.Itoa(c.proto))
	b.WriteString(" user=default lib-name=" + c.lib + " lib-ver=" + c.libVersion + "\n")
	return b.String()
}
