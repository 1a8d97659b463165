package topology

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/redisurl"
)

// A request is the state of sending one command to the server that has its key. The arguments of the command are not in
// it, so that they can stay on the stack.
type request struct {
	client     *Client
	slot       uint16
	readOnly   bool
	sameServer bool // TRYAGAIN is returned to the caller, which can send the keys one by one
}

const (
	// maxRedirects is the number of redirections in a row after which a request waits, because the servers do not agree.
	maxRedirects = 5
	// firstRetryDelay is the delay before a request is sent again. It doubles each time, up to maxRetryDelay.
	firstRetryDelay, maxRetryDelay = time.Millisecond, 32 * time.Millisecond
	// defaultRetryTime is the time for which a request without a deadline is retried.
	defaultRetryTime = 5 * time.Second
)

// target returns the server for the request according to the current map.
func (r *request) target() (*Server, error) {
	m, err := r.client.Map()
	if err != nil {
		return nil, err
	}
	if r.readOnly && r.client.readReplicas {
		if s := m.replica(r.slot); s != nil {
			return s, nil
		}
	}
	s := m.primary(r.slot)
	if s == nil {
		r.client.Refresh()
		return nil, &ServerError{
			Server: "the cluster at " + r.client.endpoint.Addrs[0], Problem: "has no server for some keys",
			class: ErrUnreachable, Fix: "see CLUSTER SLOTS: every slot needs a primary",
		}
	}
	return s, nil
}

// build builds the command again.
func (r *request) build(args []string) rueidis.Completed {
	cmd := r.client.builder.Arbitrary(args[0]).Args(args[1:]...)
	if r.readOnly {
		return cmd.ReadOnly()
	}
	return cmd.Build()
}

// retry handles an error result from a server: it follows redirections and waits for servers that are not ready. It
// returns the final result.
func (r *request) retry(
	ctx context.Context, args []string, s *Server, result rueidis.RedisResult,
) rueidis.RedisResult {
	delay, redirects := firstRetryDelay, 0
	var end time.Time
	for {
		if result.NonRedisError() != nil {
			return r.retryOnPrimary(ctx, args, s, result)
		}
		err := result.Error()
		if err == nil || rueidis.IsRedisNil(err) {
			return result
		}
		addr, action := r.readError(s, err)
		switch action {
		case returnReply:
			return result
		case redirect, redirectAsking:
			s.counts.redirects.Add(1)
			r.client.Refresh()
			if redirects++; redirects > maxRedirects {
				break // out of the switch: wait before the next attempt
			}
			if s, err = r.client.Server(addr); err != nil {
				return rueidis.NewErrorResult(err)
			}
			result = r.send(ctx, s, r.build(args), action == redirectAsking)
			continue
		case retryLater:
			s.counts.retries.Add(1)
			r.client.Refresh()
		}
		if end.IsZero() {
			end = r.client.clock.Now().Add(r.client.retryTime)
		}
		if !r.client.sleepBefore(ctx, delay, end) {
			return result
		}
		delay, redirects = min(2*delay, maxRetryDelay), 0
		target, err := r.target()
		if err != nil {
			return result
		}
		s = target
		result = r.send(ctx, s, r.build(args), false)
	}
}

// retryOnPrimary handles a request without a response. Only a read that was sent to a replica is sent again, to the
// primary.
func (r *request) retryOnPrimary(
	ctx context.Context, args []string, s *Server, result rueidis.RedisResult,
) rueidis.RedisResult {
	if ctx.Err() != nil || errors.Is(result.NonRedisError(), headgate.ErrClosed) {
		return result
	}
	r.client.Refresh()
	if !r.readsFromReplica(s) {
		return result
	}
	r.readOnly = false
	primary, err := r.target()
	if err != nil {
		return result
	}
	return r.retry(ctx, args, primary, r.send(ctx, primary, r.build(args), false))
}

// send sends the command to a server.
func (r *request) send(ctx context.Context, s *Server, cmd rueidis.Completed, asking bool) rueidis.RedisResult {
	switch {
	case asking:
		return s.DoMulti(ctx, r.client.builder.Asking().Build(), cmd)[1]
	case r.client.Clustered() && r.readsFromReplica(s):
		return s.DoMulti(ctx, r.client.builder.Readonly().Build(), cmd)[1]
	default:
		return s.Do(ctx, cmd)
	}
}

// readsFromReplica reports whether a server runs the command in place of the primary.
func (r *request) readsFromReplica(s *Server) bool {
	if !r.readOnly || !r.client.readReplicas {
		return false
	}
	m := r.client.current.Load()
	return m != nil && m.primary(r.slot) != s
}

// sleepBefore waits for about delay. It returns false if the wait would end after the deadline of ctx or, if there is
// no deadline, after end.
func (c *Client) sleepBefore(ctx context.Context, delay time.Duration, end time.Time) bool {
	delay = c.jitter(delay)
	if deadline, ok := ctx.Deadline(); ok {
		end = deadline
	}
	return end.Sub(c.clock.Now()) > delay && clock.Sleep(ctx, c.clock, delay) == nil
}

// An errorAction says what to do after an error reply.
type errorAction uint8

const (
	returnReply    errorAction = iota
	redirect                   // send the command to another server
	redirectAsking             // send ASKING and the command to another server
	retryLater
)

// readError returns what to do after an error reply, and the address of a redirection. Unless the action is
// returnReply, the server has not executed the command.
func (r *request) readError(s *Server, err error) (addr string, action errorAction) {
	code, rest, _ := strings.Cut(ReplyText(err), " ")
	switch code {
	case "TRYAGAIN":
		if r.sameServer {
			return "", returnReply
		}
		return "", retryLater
	case "LOADING", "CLUSTERDOWN", "MASTERDOWN":
		return "", retryLater
	case "READONLY":
		// The server was the primary. The sentinels or the cluster will soon report the new one. The name of a standalone
		// server may now resolve to another server.
		if r.client.endpoint.Kind != redisurl.Standalone {
			return "", retryLater
		}
		s.reconnectDemoted()
	case "MOVED", "ASK":
		if !r.client.Clustered() {
			return "", returnReply
		}
		_, addr, _ := strings.Cut(rest, " ")
		addr, ok := redirectionAddr(addr, s.addr)
		if !ok {
			return "", returnReply
		}
		if code == "ASK" {
			return addr, redirectAsking
		}
		return addr, redirect
	}
	return "", returnReply
}

// redirectionAddr completes the address in a redirection. An empty host stands for the host of the server that sent it.
func redirectionAddr(addr, sender string) (string, bool) {
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(addr[:colon], "[]"), addr[colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(sender)
	}
	if host == "?" || host == "" || port == "" {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
