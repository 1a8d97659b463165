package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A ReplyError is an error reply, such as "ERR syntax error".
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// A conn speaks RESP2 to a server.
type conn struct {
	net.Conn
	replies *bufio.Reader
}

// closeQuietly closes a connection that is no longer needed. An error does not matter.
func closeQuietly(c io.Closer) { c.Close() }

func newConn(c net.Conn) *conn { return &conn{Conn: c, replies: bufio.NewReader(c)} }

func dial(network, addr string, deadline time.Time) (*conn, error) {
	c, err := (&net.Dialer{Deadline: deadline}).Dial(network, addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		closeQuietly(c)
		return nil, err
	}
	return newConn(c), nil
}

// do sends a command and returns its reply: a string, an int64, a []any or nil.
func (c *conn) do(args []string) (any, error) {
	if _, err := c.Write(command(args)); err != nil {
		return nil, err
	}
	reply, err := readReply(c.replies)
	if err != nil {
		return nil, err
	}
	if e, ok := reply.(ReplyError); ok {
		return nil, e
	}
	return reply, nil
}

func command(args []string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// readReply reads a reply. An error reply is a ReplyError, and readReply then returns no error.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("malformed reply %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return nil, err
		}
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("malformed reply %q", line)
}

// refused reports whether err is an error reply whose first word is the given one.
func refused(err error, word string) bool {
	var e ReplyError
	if !errors.As(err, &e) {
		return false
	}
	return len(e) > len(word) && string(e[:len(word)]) == word && e[len(word)] == ' '
}
