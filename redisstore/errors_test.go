package redisstore

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

// A fakeReplyError is an error with the text of a reply. Real ones are made by the library alone.
type fakeReplyError string

func (f fakeReplyError) Error() string { return string(f) }

func TestRepliesAreReadAlsoFromScriptsOfOldServers(t *testing.T) {
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
		got := replyText(fakeReplyError(text))
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %s", text, got, want)
		}
	}
}

func TestAScriptThatStumblesIsToldFromAServerThatCannotRunIt(t *testing.T) {
	for text, want := range map[string]bool{
		"user_script:110: bad argument #1 to 'min' (number expected, got nil) script: b64c, on @user_script:110.":                  true,
		"ERR Error running script (call to f_0123): @user_script:26: user_script:26: bad argument #2 to 'unpack' (data too short)": true,
		"user_script:31: attempt to compare nil with number script: b64c, on @user_script:31.":                                     true,
		"user_script:1: Script attempted to access nonexistent global variable 'struct' script: 54ff, on @user_script:1.":          false,
		"bad argument #1": false,
	} {
		if got := unreadable(fakeReplyError(text)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func TestNetworkErrorsAreExplained(t *testing.T) {
	c := &connection{endpoint: &redisurl.Endpoint{}}
	for _, tt := range []struct {
		err   error
		class error
		want  string
	}{
		{context.DeadlineExceeded, ErrUnanswered, "s: did not answer in time"},
		{os.ErrDeadlineExceeded, ErrUnanswered, "s: did not answer in time"},
		{context.Canceled, ErrUnanswered, "s: had not answered when the caller went"},
		{io.EOF, ErrUnanswered, "s: broke the connection"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ErrUnanswered, "s: broke the connection"},
		{rueidis.ErrClosing, headgate.ErrClosed, "limiter is closed"},
		{rueidis.Nil, nil, "answers nothing"},
		{away("s", context.DeadlineExceeded), ErrAway, "was not asked, as there was no time left"},
		{fmt.Errorf("wrapped: %w", &ServerError{Server: "s", What: "is known"}), nil, "is known"},
	} {
		got := c.explain(tt.err, "s")
		if got == nil || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%v: got %v, want %q", tt.err, got, tt.want)
		}
		for _, class := range []error{ErrUnanswered, ErrAway, headgate.ErrClosed} {
			if is, want := errors.Is(got, class), tt.class != nil && errors.Is(tt.class, class); is != want {
				t.Errorf("%v: is %v: got %t, want %t", tt.err, class, is, want)
			}
		}
		if again := c.explain(got, "other"); !errors.Is(again, got) || again.Error() != got.Error() {
			t.Errorf("%v: explained twice it is %v", tt.err, again)
		}
	}
	if c.explain(nil, "s") != nil {
		t.Error("nil is explained")
	}
}

func TestEveryAnswerSaysWhatIsWrong(t *testing.T) {
	for _, a := range answers {
		if a.what == "" || a.cure == "" && a.begins != "LOADING" && a.begins != "TRYAGAIN" {
			t.Errorf("%s: what %q, cure %q", a.begins, a.what, a.cure)
		}
	}
}
