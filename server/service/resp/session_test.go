package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/memstore"
)

func TestConnectionCommands(t *testing.T) {
	for _, test := range []struct {
		name string
		list []said
	}{
		{"in RESP2", []said{
			{"PING", "PONG"},
			{"ping hello", "hello"},
			{"ECHO \"a b\"", "a b"},
			{"HELLO", "server headgate version 7.0.0 proto 2 id …"},
			{"SELECT 0", "OK"},
			{"SELECT 1", "ERR DB index is out of range"},
			{"SELECT x", "ERR value is not an integer or out of range"},
			{"CLIENT GETNAME", "(null)"},
			{"CLIENT SETNAME me", "OK"},
			{"CLIENT GETNAME", "me"},
			{"CLIENT SETNAME \"a b\"", "ERR Client names cannot contain spaces, newlines or special characters."},
			{"CLIENT SETINFO LIB-NAME lib", "OK"},
			{"CLIENT SETINFO LIB-VER 1.2", "OK"},
			{"CLIENT SETINFO LIB-AGE 1", "ERR Unrecognized option 'LIB-AGE'"},
			{"CLIENT INFO", "id=…"},
			{"CLIENT LIST", "id=…"},
			{"CLIENT NO-EVICT ON", "OK"},
			{"CLIENT TRACKING ON OPTIN", "OK"},
			{"CLIENT NONSENSE", "ERR unknown subcommand…"},
			{"COMMAND COUNT", "21"},
			{"COMMAND INFO cl.throttle nothing", "[cl.throttle -5 [fast write] 1 1 1 [] [] [] []] [(null)]"},
			{"COMMAND GETKEYS HG.TAKE rule key", "key"},
			{"COMMAND DOCS ping", "ping [summary Replies PONG. [message] since 1.0.0 group connection arguments []]"},
			{"COMMAND DOCS nothing", ""},
			{"CONFIG GET save", "save "},
			{"CONFIG GET appendonly", "appendonly no"},
			{"CONFIG GET max*", "maxclients 10000 maxmemory 0"},
			{"CONFIG GET nothing", ""},
			{"CONFIG SET save x", "ERR CONFIG SET is not supported: use CONFIG GET…"},
			{"CLUSTER SLOTS", "ERR This instance has cluster support disabled"},
			{"INFO replication", "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"},
			{"AUTH x", "ERR AUTH <password> called without any password configured…"},
			{"AUTH default x", "OK"},
			{"GET a", "ERR unknown command 'GET', with args beginning with: 'a' "},
			{"QUIT", "OK"},
		}},
		{"in RESP3", []said{
			{"HELLO 4", "NOPROTO unsupported protocol version"},
			{"HELLO x", "ERR Protocol version is not an integer or out of range"},
			{"HELLO 3 SETNAME me", "server headgate version 7.0.0 proto 3 id …"},
			{"CLIENT GETNAME", "me"},
			{"CONFIG GET save", "save "},
			{"INFO replication", "txt:# Replication…"},
			{"HELLO 3 NONSENSE", "ERR Syntax error in HELLO option 'NONSENSE'"},
			{"RESET", "RESET"},
			{"CLIENT GETNAME", "(null)"},
			{"HELLO", "server headgate version 7.0.0 proto 2 id …"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			converse(t, dial(t, serve(t, onMemory(t, memstore.Options{})).address), test.list)
		})
	}
}

func TestRESP3Replies(t *testing.T) {
	c := dial(t, serve(t, onMemory(t, memstore.Options{})).address)
	c.send("HELLO 3\r\n")
	if b, err := c.r.Peek(1); err != nil || b[0] != '%' {
		t.Errorf("HELLO 3 begins with %q, %v, want a map", b, err)
	}
	c.read()
	c.send("CLIENT GETNAME\r\n")
	if b, err := c.r.Peek(1); err != nil || b[0] != '_' {
		t.Errorf("no name begins with %q, %v, want a null", b, err)
	}
}

func TestCommandsNeedTheToken(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Token = token(t, "0123456789abcdef")
	s := serve(t, config)
	const wrong = "WRONGPASS invalid username-password pair or user is disabled."
	converse(t, dial(t, s.address), []said{
		{"PING", "NOAUTH Authentication required."},
		{"CL.THROTTLE a 1 1 60", "NOAUTH Authentication required."},
		{"HG.TAKE per-user a", "NOAUTH Authentication required."},
		{"HG.RELEASE a", "NOAUTH Authentication required."},
		{"INFO", "NOAUTH Authentication required."},
		{"HELLO 3", "NOAUTH HELLO must be called with the client already authenticated…"},
		{"AUTH 0123456789abcdeF", wrong},
		{"AUTH default 0123456789abcde", wrong},
		{"AUTH a b c", "ERR syntax error"},
		{"HELLO 3 AUTH default nonsense", wrong},
		{"PING", "NOAUTH Authentication required."},
		{"HELLO 3 AUTH default 0123456789abcdef", "server headgate…"},
		{"PING", "PONG"},
		{"AUTH wrong", wrong}, // the session stays authenticated
		{"PING", "PONG"},
		{"RESET", "RESET"},
		{"PING", "NOAUTH Authentication required."},
		{"AUTH 0123456789abcdef", "OK"},
		{"CL.THROTTLE a 1 1 60", "0 2 1 -1 60"},
	})
	if got := s.Stats().RefusedTokens; got != 4 {
		t.Errorf("got %d wrong tokens, want 4", got)
	}
	// Without a token, long commands are refused.
	c := dial(t, s.address)
	c.send(encode(strings.Fields("ECHO 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17")...))
	if got := c.closed(); got != "-ERR Protocol error: unauthenticated multibulk length\r\n" {
		t.Errorf("17 arguments without a token: got %q", got)
	}
}

func TestWrongTokensAreThrottled(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Token, config.AdminToken = token(t, "0123456789abcdef"), token(t, "administrator-0123456789")
	config.Logins = newLogins(t, 10)
	s := serve(t, config)
	before := dial(t, s.address)
	converse(t, before, []said{{"AUTH 0123456789abcdef", "OK"}})
	const wrong = "WRONGPASS invalid username-password pair or user is disabled."
	const tooMany = "ERR too many wrong tokens from this address: try again in 360 s"
	guesses := dial(t, s.address)
	for i := range 5 {
		converse(t, guesses, []said{{fmt.Sprintf("AUTH guess-number-%d", i), wrong}, {fmt.Sprintf("HELLO 3 AUTH default guess-%d", i), wrong}})
	}
	for _, c := range []*client{guesses, dial(t, s.address)} {
		converse(t, c, []said{
			{"AUTH guess-number-11", tooMany},
			{"AUTH administrator-0123456789", tooMany},
			{"HELLO 3 AUTH default 0123456789abcdef", tooMany},
			{"PING", "NOAUTH Authentication required."},
		})
	}
	converse(t, before, []said{{"PING", "PONG"}, {"AUTH administrator-0123456789", tooMany}, {"PING", "PONG"}})
}

func TestRepliesCanBeTurnedOff(t *testing.T) {
	for _, store := range []string{"in memory", "behind a network"} {
		t.Run(store, func(t *testing.T) {
			config := onMemory(t, memstore.Options{})
			if store != "in memory" {
				config = onRedis(t, &slowStore{Store: newStore(t, memstore.Options{})})
			}
			c := dial(t, serve(t, config).address)
			take := encode("HG.TAKE", "per-user", "alice")
			c.send(encode("CLIENT", "REPLY", "SKIP") + take + take + encode("CLIENT", "REPLY", "OFF") + take + encode("PING") +
				encode("CLIENT", "REPLY", "ON") + take)
			answers := []string{"1 5 3 ", "OK", "1 5 1 "}
			if store != "in memory" { // they are concurrent, and may be decided in any order
				answers = []string{"1 5 ", "OK", "1 5 "}
			}
			for _, want := range answers {
				if got := c.read(); !strings.HasPrefix(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}
