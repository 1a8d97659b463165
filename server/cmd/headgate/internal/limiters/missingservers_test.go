package limiters

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/redisstore"
)

func TestMissingServersAreShownAsDown(t *testing.T) {
	var m missingServers
	var last []redisstore.ShardHealth
	at := time.Unix(1_800_000_000, 0)
	unreachable := errors.New("no server responds")
	check := func(after time.Duration, err error, servers ...string) string {
		var found []redisstore.ShardHealth
		for _, server := range servers {
			found = append(found, redisstore.ShardHealth{Shard: server, Server: server, Primary: true})
		}
		at = at.Add(after)
		last = m.keep(last, found, err, at)
		var list []string
		for _, h := range last {
			list = append(list, fmt.Sprintf("%s %v", h.Server, h.Err == nil))
		}
		return strings.Join(list, ", ")
	}
	for _, step := range []struct {
		after   time.Duration
		err     error
		servers []string
		want    string
	}{
		{0, nil, []string{"a", "b"}, "a true, b true"},
		{10 * time.Second, nil, []string{"b", "c"}, "b true, c true, a false"}, // a failover
		{10 * time.Second, unreachable, nil, "b false, c false, a false"},
		{10 * time.Second, nil, []string{"a", "b", "c"}, "a true, b true, c true"},
		{10 * time.Second, nil, []string{"b"}, "b true, a false, c false"},
		{2 * time.Hour, nil, []string{"b"}, "b true"},
	} {
		if got := check(step.after, step.err, step.servers...); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}
