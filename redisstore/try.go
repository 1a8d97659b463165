package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// A try is a command on its way to the server that has its key. What the command says is kept apart, so that it need not
// be on the heap.
type try struct {
	c     *connection
	slot  uint16
	reads bool
	// together is set if the caller can do without keys that are on two servers.
	together bool
}

const (
	// maxHops is how often a call is sent on before it waits for the servers to agree.
	maxHops = 5
	// A call that a server is not ready for is tried again after a while, which doubles each time.
	firstPause, lastPause = time.Millisecond, 32 * time.Millisecond
	// maxTrying is for how long a call is tried that has no deadline, as a rule.
	maxTrying = 5 * time.Second
)

// first returns the server to ask first.
func (t *try) first() (*node, error) {
	m := t.c.topology.Load()
	if m == nil {
		return nil, away(t.c.endpoint.Addrs[0], t.c.whyNoMap())
	}
	if t.reads && t.c.readReplicas {
		if n := m.replica(t.slot); n != nil {
			return n, nil
		}
	}
	n := m.primary(t.slot)
	if n == nil {
		t.c.refresh()
		return nil, &ServerError{
			Server: "the cluster at " + t.c.endpoint.Addrs[0], What: "has no server for some keys", class: ErrAway,
			Cure: "see CLUSTER SLOTS: every slot needs a primary",
		}
	}
	return n, nil
}

// whyNoMap returns why it is not known which servers there are.
func (c *connection) whyNoMap() error {
	if p := c.why.Load(); p != nil {
		return *p
	}
	for _, n := range c.seeds { // nobody has read the map yet, and the keepers may know already that nobody will
		if st := n.status.Load(); !st.up && st.tries > 0 {
			return st.err
		}
	}
	return errNotYet
}

// build makes the command again.
func (t *try) build(args []string) rueidis.Completed {
	cmd := t.c.builder.Arbitrary(args[0]).Args(args[1:]...)
	if t.reads {
		return cmd.ReadOnly()
	}
	return cmd.Build()
}

// again makes of a result that is an error what can be made of it: it follows where a server points, and waits for one
// that is not ready.
func (t *try) again(ctx context.Context, args []string, n *node, result rueidis.RedisResult) rueidis.RedisResult {
	pause, hops := firstPause, 0
	var end time.Time
	for {
		if result.NonRedisError() != nil {
			return t.broken(ctx, args, n, result)
		}
		err := result.Error()
		if err == nil || rueidis.IsRedisNil(err) {
			return result
		}
		target, verdict := t.read(n, err)
		switch verdict {
		case final:
			return result
		case elsewhere, asking:
			n.counts.redirects.Add(1)
			t.c.refresh()
			if hops++; hops > maxHops {
				break
			}
			if n, err = t.c.node(target); err != nil {
				return rueidis.NewErrorResult(err)
			}
			result = t.send(ctx, n, t.build(args), verdict == asking)
			continue
		case notReady:
			n.counts.retries.Add(1)
			t.c.refresh()
		}
		if end.IsZero() {
			end = time.Now().Add(t.c.trying)
		}
		if !sleep(ctx, pause, end) {
			return result
		}
		pause, hops = min(2*pause, lastPause), 0
		first, err := t.first()
		if err != nil {
			return result
		}
		n = first
		result = t.send(ctx, n, t.build(args), false)
	}
}

// broken returns what to answer when a server did not. Only a look that was sent to a replica is sent again, to the
// primary.
func (t *try) broken(ctx context.Context, args []string, n *node, result rueidis.RedisResult) rueidis.RedisResult {
	if ctx.Err() != nil || errors.Is(result.NonRedisError(), headgate.ErrClosed) {
		return result
	}
	t.c.refresh()
	if !t.asReplica(n) {
		return result
	}
	t.reads = false
	primary, err := t.first()
	if err != nil {
		return result
	}
	return t.again(ctx, args, primary, t.send(ctx, primary, t.build(args), false))
}

// send sends the command to a server.
func (t *try) send(ctx context.Context, n *node, cmd rueidis.Completed, asking bool) rueidis.RedisResult {
	switch {
	case asking:
		return n.doMulti(ctx, t.c.builder.Asking().Build(), cmd)[1]
	case t.c.clustered() && t.asReplica(n):
		return n.doMulti(ctx, t.c.builder.Readonly().Build(), cmd)[1]
	default:
		return n.do(ctx, cmd)
	}
}

// asReplica reports whether a server is asked in the place of the primary.
func (t *try) asReplica(n *node) bool {
	if !t.reads || !t.c.readReplicas {
		return false
	}
	m := t.c.topology.Load()
	return m != nil && m.primary(t.slot) != n
}

// sleep waits a while, unless that would be past the deadline, or past the end if there is none.
func sleep(ctx context.Context, pause time.Duration, end time.Time) bool {
	pause = pause/2 + rand.N(pause/2)
	if deadline, ok := ctx.Deadline(); ok {
		end = deadline
	}
	if time.Until(end) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A verdict is what to do about an error reply.
type verdict uint8

const (
	final     verdict = iota // it is the answer
	elsewhere                // ask another server
	asking                   // ask another server, with ASKING before
	notReady                 // ask again later
)

// read returns what to do about an error reply, and the server that it points to. All but final are replies of a server
// that did nothing.
func (t *try) read(n *node, err error) (string, verdict) {
	word, rest, _ := strings.Cut(replyText(err), " ")
	switch word {
	case "TRYAGAIN":
		if t.together {
			return "", final
		}
		return "", notReady
	case "LOADING", "CLUSTERDOWN", "MASTERDOWN":
		return "", notReady
	case "READONLY":
		// It was the primary. Where sentinels or the cluster know who is now, so will we soon; else its name may lead
		// elsewhere by now.
		if t.c.endpoint.Kind != redisurl.Standalone {
			return "", notReady
		}
		n.demoted()
	case "MOVED", "ASK":
		if !t.c.clustered() {
			return "", final
		}
		_, addr, _ := strings.Cut(rest, " ")
		addr, ok := pointed(addr, n.addr)
		if !ok {
			return "", final
		}
		if word == "ASK" {
			return addr, asking
		}
		return addr, elsewhere
	}
	return "", final
}

// pointed completes the address in a redirection. It may have no host, which stands for that of the server that said so.
func pointed(addr, from string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	if host == "?" || host == "" || port == "" {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
