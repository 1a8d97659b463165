package resp

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/headgate/headgate/service"
)

// A session is what a client has told of itself.
type session struct {
	proto  int // 2 or 3
	authed bool
	proven bool // it has shown a token
	name   string
	lib    string
	libVer string

	replies replies
}

// replies says what a client wants to hear.
type replies uint8

const (
	replyOn replies = iota
	replyOff
	replySkipNext // nothing of the next command
	replySkip     // nothing of this one
)

// quiet tells whether the client does not want to hear the answer of the command at hand.
func (s *session) quiet() bool { return s.replies == replyOff || s.replies == replySkip }

// begin is how a session begins.
func (s *session) begin(server *Server) {
	*s = session{proto: 2, authed: server.config.Token == nil}
}

func (c *conn) ping(k *clerk, args [][]byte) {
	if len(args) == 2 {
		k.out = appendBulk(k.out, args[1])
		return
	}
	k.out = append(k.out, textPong...)
}

func (c *conn) echo(k *clerk, args [][]byte) { k.out = appendBulk(k.out, args[1]) }

// auth answers AUTH [username] token. The username says nothing here.
func (c *conn) auth(k *clerk, args [][]byte) {
	switch {
	case len(args) > 3:
		k.fail(textSyntax)
	case !c.server.tokens.Any() && len(args) == 2:
		k.fail("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	case !c.server.tokens.Any(), c.show(k, args[len(args)-1]):
		k.out = append(k.out, textOK...)
	}
}

const textWrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// show takes a token, and reports whether it is valid. If not, it has told the client.
func (c *conn) show(k *clerk, token []byte) bool {
	err := c.server.tokens.Check(c.server.background, string(token), service.AddrOf(c.net.RemoteAddr()), nil)
	if err == nil {
		c.authed, c.proven = true, true
		return true
	}
	c.server.counts.refusedTokens.Add(1)
	var tooMany *service.TooManyLoginsError
	if errors.As(err, &tooMany) {
		k.fail("ERR " + tooMany.Error())
	} else {
		k.fail(textWrongPass)
	}
	return false
}

// hello answers HELLO [protover [AUTH username token] [SETNAME name]].
func (c *conn) hello(k *clerk, args [][]byte) {
	proto, name, named := c.proto, "", false
	rest := args[1:]
	if len(rest) > 0 {
		version, ok := readInt(rest[0])
		if !ok {
			k.fail("ERR Protocol version is not an integer or out of range")
			return
		}
		if version != 2 && version != 3 {
			k.fail("NOPROTO unsupported protocol version")
			return
		}
		proto, rest = int(version), rest[1:]
	}
	var token []byte
	for len(rest) > 0 {
		switch {
		case fold(rest[0], "AUTH") && len(rest) >= 3:
			token, rest = rest[2], rest[3:]
		case fold(rest[0], "SETNAME") && len(rest) >= 2:
			if !isName(rest[1]) {
				k.fail(textBadName)
				return
			}
			name, named, rest = string(rest[1]), true, rest[2:]
		default:
			k.fail("ERR Syntax error in HELLO option '" + printable(rest[0]) + "'")
			return
		}
	}
	if token != nil && c.server.tokens.Any() && !c.show(k, token) {
		return
	}
	if !c.authed {
		k.fail("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> " +
			"<pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	c.proto = proto
	if named {
		c.name = name
	}
	k.out = c.appendMap(k.out, 7)
	for _, pair := range [...][2]string{{"server", serverName}, {"version", redisVersion}} {
		k.out = appendBulk(appendBulk(k.out, pair[0]), pair[1])
	}
	k.out = appendInt(appendBulk(k.out, "proto"), int64(c.proto))
	k.out = appendInt(appendBulk(k.out, "id"), c.id)
	for _, pair := range [...][2]string{{"mode", "standalone"}, {"role", "master"}} {
		k.out = appendBulk(appendBulk(k.out, pair[0]), pair[1])
	}
	k.out = appendArray(appendBulk(k.out, "modules"), 0)
}

const serverName = "headgate"

func (c *conn) quit(k *clerk, _ [][]byte) {
	k.out = append(k.out, textOK...)
	c.closing = true
}

func (c *conn) resetSession(k *clerk, _ [][]byte) {
	c.begin(c.server)
	c.endTransaction()
	k.out = appendSimple(k.out, "RESET")
}

func (c *conn) selectDB(k *clerk, args [][]byte) {
	switch index, ok := readInt(args[1]); {
	case !ok:
		k.fail(textNotInteger)
	case index != 0:
		k.fail("ERR DB index is out of range")
	default:
		k.out = append(k.out, textOK...)
	}
}

func (c *conn) cluster(k *clerk, _ [][]byte) {
	k.fail("ERR This instance has cluster support disabled")
}

const textBadName = "ERR Client names cannot contain spaces, newlines or special characters."

// isName tells whether a text can name a connection: it has no spaces, and its length is bounded.
func isName(b []byte) bool {
	const most = 256
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return len(b) <= most
}

// client answers CLIENT. A client is told of its own connection and of no other: who else is connected is not its business.
func (c *conn) client(k *clerk, args [][]byte) {
	sub, rest := args[1], args[2:]
	switch {
	case fold(sub, "ID") && len(rest) == 0:
		k.out = appendInt(k.out, c.id)
	case fold(sub, "GETNAME") && len(rest) == 0:
		if c.name == "" {
			k.out = c.appendNull(k.out)
			return
		}
		k.out = appendBulk(k.out, c.name)
	case fold(sub, "SETNAME") && len(rest) == 1:
		if !isName(rest[0]) {
			k.fail(textBadName)
			return
		}
		c.name = string(rest[0])
		k.out = append(k.out, textOK...)
	case fold(sub, "SETINFO") && len(rest) == 2:
		c.setInfo(k, rest[0], rest[1])
	case fold(sub, "INFO") && len(rest) == 0, fold(sub, "LIST"):
		k.out = c.appendText(k.out, c.describe())
	case fold(sub, "REPLY") && len(rest) == 1:
		c.setReplies(k, rest[0])
	case (fold(sub, "NO-EVICT") || fold(sub, "NO-TOUCH")) && len(rest) == 1 && (fold(rest[0], "ON") || fold(rest[0], "OFF")),
		fold(sub, "TRACKING") && len(rest) >= 1 && (fold(rest[0], "ON") || fold(rest[0], "OFF")):
		// Nothing here is evicted, and nothing that can be read is to be kept: there is never anything to tell.
		k.out = append(k.out, textOK...)
	case fold(sub, "GETREDIR") && len(rest) == 0:
		k.out = appendInt(k.out, -1)
	default:
		k.fail("ERR unknown subcommand or wrong number of arguments for '" + printable(sub) + "'. Try CLIENT HELP.")
	}
}

func (c *conn) setInfo(k *clerk, what, value []byte) {
	if !isName(value) {
		k.fail("ERR " + printable(what) + " cannot contain spaces, newlines or special characters.")
		return
	}
	switch {
	case fold(what, "LIB-NAME"):
		c.lib = string(value)
	case fold(what, "LIB-VER"):
		c.libVer = string(value)
	default:
		k.fail("ERR Unrecognized option '" + printable(what) + "'")
		return
	}
	k.out = append(k.out, textOK...)
}

func (c *conn) setReplies(k *clerk, mode []byte) {
	switch {
	case fold(mode, "ON"):
		c.replies = replyOn
		k.out = append(k.out, textOK...)
	case fold(mode, "OFF"):
		c.replies = replyOff
	case fold(mode, "SKIP"):
		if c.replies != replyOff {
			c.replies = replySkipNext
		}
	default:
		k.fail(textSyntax)
	}
}

// describe returns what CLIENT INFO says.
func (c *conn) describe() string {
	var b bytes.Buffer
	b.WriteString("id=" + strconv.FormatInt(c.id, 10))
	b.WriteString(" addr=" + c.remote() + " laddr=" + c.net.LocalAddr().String())
	b.WriteString(" name=" + c.name + " db=0 flags=N resp=" + strconv.Itoa(c.proto))
	b.WriteString(" user=default lib-name=" + c.lib + " lib-ver=" + c.libVer + "\n")
	return b.String()
}
