package topology

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// A fakeReplyError is an error with the text of a reply. Only the library can make real ones.
type fakeReplyError string

func (f fakeReplyError) Error() string { return string(f) }

func TestReplyTextWithoutPrefixes(t *testing.T) {
	for text, want := range map[string]string{
		"READONLY You can't write against a read only replica.":                                                                          "READONLY",
		"Error running script (call to f_0123): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": "READONLY",
		"Error running script (call to f_0123): @user_script:3: WRONGTYPE Operation against a key holding the wrong kind of value":       "WRONGTYPE",
		"ERR Error running script (call to f_0123): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'.":            "OOM",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: 0123, on @user_script:1.":                             "WRONGTYPE",
		"ERR something":        "something",
		"":                     "",
		"Error running script": "",
	} {
		got := ReplyText(fakeReplyError(text))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %s", text, got, want)
		}
	}
}

func TestScriptFailureDiffersFromMissingLua(t *testing.T) {
	for text, want := range map[string]bool{
		"user_script:110: bad argument #1 to 'min' (number expected, got nil) script: b64c, on @user_script:110.":                  true,
		"ERR Error running script (call to f_0123): @user_script:26: user_script:26: bad argument #2 to 'unpack' (data too short)": true,
		"user_script:31: attempt to compare nil with number script: b64c, on @user_script:31.":                                     true,
		"user_script:1: Script attempted to access nonexistent global variable 'struct' script: 54ff, on @user_script:1.":          false,
		"bad argument #1": false,
	} {
		if got := isScriptFailure(fakeReplyError(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func TestNetworkErrorsAreExplained(t *testing.T) {
	c := &Client{endpoint: &redisurl.Endpoint{}}
	for _, tt := range []struct {
		err   error
		class error
		want  string
	}{
		{context.DeadlineExceeded, ErrNoResponse, "s: did not respond in time"},
		{os.ErrDeadlineExceeded, ErrNoResponse, "s: did not respond in time"},
		{context.Canceled, ErrNoResponse, "s: had not responded when the caller canceled"},
		{io.EOF, ErrNoResponse, "s: closed the connection"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ErrNoResponse, "s: closed the connection"},
		{rueidis.ErrClosing, headgate.ErrClosed, "limiter is closed"},
		{rueidis.Nil, nil, "sent an empty reply"},
		{unreachableError("s", context.DeadlineExceeded), ErrUnreachable, "was not called, because no time was left"},
		{fmt.Errorf("wrapped: %w", &ServerError{Server: "s", Problem: "is known"}), nil, "is known"},
	} {
		got := c.Explain(tt.err, "s")
		if got == nil || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.err, got, tt.want)
		}
		for _, class := range []error{ErrNoResponse, ErrUnreachable, headgate.ErrClosed} {
			if is, want := errors.Is(got, class), tt.class != nil && errors.Is(tt.class, class); is != want {
				t.Errorf("%v: is %v: got %t, want %t", tt.err, class, is, want)
			}
		}
		if again := c.Explain(got, "other"); !errors.Is(again, got) || again.Error() != got.Error() {
			t.Errorf("%v: explained twice it is %v", tt.err, again)
		}
	}
	if c.Explain(nil, "s") != nil {
		t.Error("nil is explained")
	}
}

func TestEveryErrorReplyHasProblemAndFix(t *testing.T) {
	for _, r := range errorReplies {
		if r.Problem == "" || r.Fix == "" && r.prefix != "LOADING" && r.prefix != "TRYAGAIN" {
			t.Errorf("%s: problem %q, fix %q", r.prefix, r.Problem, r.Fix)
		}
	}
}
