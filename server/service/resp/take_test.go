package resp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// A said has a command and the expected reply. A reply that ends in … is compared up to there.
type said struct {
	command, want string
}

// converse sends commands as lines and compares the replies.
func converse(t *testing.T, c *client, list []said) {
	t.Helper()
	for _, s := range list {
		c.send(s.command + "\r\n")
		got := c.read()
		want, open := strings.CutSuffix(s.want, "…")
		if got != want && !(open && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", s.command, got, s.want)
		}
	}
}

func TestTakeDecidesByRules(t *testing.T) {
	for _, test := range []struct {
		name string
		list []said
	}{
		{"the value of the one key attribute", []said{
			{"HG.TAKE per-user alice", "1 5 4 -1 720000"},
			{"HG.TAKE per-user alice 4", "1 5 0 -1 3600000"},
			{"HG.TAKE per-user alice", "0 5 0 720000 3600000"},
			{"HG.TAKE per-user alice 6", "0 5 0 -1 3600000"}, // never
			{"HG.TAKE per-user bob", "1 5 4 -1 720000"},
		}},
		{"a list of attributes is the same client", []said{
			{"HG.TAKE per-user user=alice 2", "1 5 3 -1 1440000"},
			{"HG.PEEK per-user alice", "1 5 3 -1 1440000"},
			{"HG.TAKE per-user user=alice,ip=192.0.2.1", "1 5 2 -1 2160000"},
		}},
		{"peek takes nothing", []said{
			{"HG.PEEK per-user alice", "1 5 5 -1 0"},
			{"HG.PEEK per-user alice", "1 5 5 -1 0"},
			{"HG.TAKE per-user alice 5", "1 5 0 -1 3600000"},
			{"HG.PEEK per-user alice", "1 5 0 -1 3600000"},
		}},
		{"addresses have one form", []said{
			{"HG.TAKE per-ip 192.0.2.1", "1 5 4 -1 720000"},
			{"HG.PEEK per-ip ::ffff:192.0.2.1", "1 5 4 -1 720000"},
			{"HG.PEEK per-ip nonsense", "ERR invalid check: ip…"},
		}},
		{"a header", []said{
			{"HG.TAKE per-plan gold", "1 5 4 -1 720000"},
			{"HG.PEEK per-plan header.x-plan=gold", "1 5 4 -1 720000"},
			{"HG.PEEK per-plan header.X-Plan=gold", "1 5 4 -1 720000"},
		}},
		{"several key attributes need a list", []said{
			{"HG.TAKE per-both alice", `ERR invalid check: key "alice": want attribute=value for each of user, header.x-plan`},
			{"HG.TAKE per-both user=alice,header.x-plan=gold", "1 5 4 -1 720000"},
			{"HG.PEEK per-both header.x-plan=gold,user=alice", "1 5 4 -1 720000"},
			{"HG.PEEK per-both user=alice,header.x-plan=silver", "1 5 5 -1 0"},
		}},
		{"values in lists are escaped, others stand as they are", []said{
			{`HG.TAKE per-user a,b=c\d`, "1 5 4 -1 720000"},
			{`HG.PEEK per-user user=a\,b=c\\d`, "1 5 4 -1 720000"},
			{`HG.PEEK per-user user=a,b=c`, "ERR invalid check: attribute \"b\"…"},
			{`HG.PEEK per-user user=a,b`, "ERR invalid check: key \"b\"…"},
			{`HG.PEEK per-user user=a,user=b`, "ERR invalid check: key \"user\": want each attribute once"},
			{`HG.PEEK per-user ""`, "ERR invalid check: key \"\": want a value of user"},
		}},
		{"overrides see what else a list says", []said{
			{"HG.TAKE gold user=alice,header.x-plan=gold", "1 50 49 -1 72000"},
			{"HG.TAKE gold bob", "1 5 4 -1 720000"},
		}},
		{"one bucket for all", []said{
			{"HG.TAKE for-all x", "1 5 4 -1 720000"},
			{"HG.TAKE for-all y", "1 5 3 -1 1440000"},
		}},
		{"a delay is told, not held", []said{
			{"HG.TAKE line alice", "1 1 0 -1 1000"},
			{"HG.TAKE line alice", "1 1 0 1000 2000"},
			{"HG.TAKE line alice 4", "0…"},
		}},
		{"without limits", []said{
			{"HG.TAKE free alice", "1 -1 -1 -1 0"},
			{"HG.TAKE closed alice", "0 0 0 -1 0"},
		}},
		{"what cannot be", []said{
			{"HG.TAKE nobodys alice", `ERR engine: no such rule: "nobodys"`},
			{"HG.PEEK nobodys alice", `ERR engine: no such rule: "nobodys"`},
			{"HG.TAKE per-user alice 0", "ERR cost must be 1 or more; HG.PEEK reads without taking"},
			{"HG.TAKE per-user alice x", "ERR value is not an integer or out of range"},
			{"HG.TAKE per-user alice 1099511627777", "ERR invalid check: Cost…"},
			{"HG.TAKE per-user", "ERR wrong number of arguments for 'hg.take' command"},
			{"HG.PEEK per-user alice 1", "ERR wrong number of arguments for 'hg.peek' command"},
			{"HG.RELEASE made-up", "ERR engine: invalid lease…"},
			{"HG.RENEW made-up", "ERR engine: invalid lease…"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := limittest.NewClock()
			converse(t, dial(t, serve(t, onMemory(t, memstore.Options{Now: clock.Now})).address), test.list)
		})
	}
}

func TestSlotsAreLeasedAndReleased(t *testing.T) {
	c := dial(t, serve(t, onMemory(t, memstore.Options{})).address)
	take := func() []string { return strings.Fields(c.do("HG.TAKE", "places", "alice")) }
	first, second := take(), take()
	if len(first) != 6 || len(second) != 6 || first[0] != "1" || second[0] != "1" {
		t.Fatalf("got %q and %q, want two that pass, with a lease each", first, second)
	}
	if got := take(); got[0] != "0" || len(got) != 5 {
		t.Errorf("a third: got %q, want a denial without a lease", got)
	}
	if got := strings.Fields(c.do("HG.RENEW", first[5])); len(got) != 2 || got[0] != "1" || got[1] == "0" {
		t.Errorf("renewal: got %q, want 1 and the TTL", got)
	}
	c.wants("OK", "HG.RELEASE", first[5])
	if got := take(); got[0] != "1" {
		t.Errorf("after a release: got %q, want one that passes", got)
	}
}

func TestResetNeedsAToken(t *testing.T) {
	const refused = "NOPERM hg.reset needs a token: AUTH with the token of the service or of the administrator"
	t.Run("none is set", func(t *testing.T) {
		converse(t, dial(t, serve(t, onMemory(t, memstore.Options{})).address), []said{{"HG.RESET per-user alice", refused}})
	})
	t.Run("that of the service", func(t *testing.T) {
		config := onMemory(t, memstore.Options{})
		config.Token = token(t, "0123456789abcdef")
		converse(t, dial(t, serve(t, config).address), []said{
			{"HG.RESET per-user alice", "NOAUTH Authentication required."},
			{"AUTH 0123456789abcdef", "OK"},
			{"HG.TAKE per-user alice 5", "1 5 0…"},
			{"HG.RESET per-user alice", "OK"},
			{"HG.PEEK per-user alice", "1 5 5 -1 0"},
			{"HG.RESET nobodys alice", "ERR engine: no such rule…"},
		})
	})
	t.Run("the administrator's", func(t *testing.T) {
		config := onMemory(t, memstore.Options{})
		config.AdminToken = token(t, "administrator-0123456789")
		converse(t, dial(t, serve(t, config).address), []said{
			{"HG.TAKE per-user alice 5", "1 5 0…"},
			{"HG.RESET per-user alice", refused},
			{"AUTH admin 0123456789abcdef", "WRONGPASS…"},
			{"AUTH admin administrator-0123456789", "OK"},
			{"HG.RESET per-user alice", "OK"},
			{"HG.PEEK per-user alice", "1 5 5 -1 0"},
			{"RESET", "RESET"},
			{"HG.RESET per-user alice", refused},
		})
	})
}

func TestResetRunsAfterEarlierCommands(t *testing.T) {
	slow := &slowStore{Store: newStore(t, memstore.Options{}), pause: 20 * time.Millisecond}
	config := onRedis(t, slow)
	config.Token = token(t, "0123456789abcdef")
	c := dial(t, serve(t, config).address)
	c.wants("OK", "AUTH", "0123456789abcdef")
	c.send(encode("HG.TAKE", "per-user", "alice", "5") + encode("HG.RESET", "per-user", "alice") + encode("HG.PEEK", "per-user", "alice"))
	for _, want := range []string{"1 5 0 ", "OK", "1 5 5 "} {
		if got := c.read(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
