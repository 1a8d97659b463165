package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
)

// callTimeout is the timeout of gRPC calls. It is longer than services would use, so that slow responses are measured
// too.
const callTimeout = 10 * time.Second

func openGRPC(u *url.URL, o Options) (Target, error) {
	if u.Path != "" {
		return nil, fmt.Errorf("target %s: want grpc://host:port", u)
	}
	c, err := client.New(client.Options{
		Address: u.Host, Token: o.Token, Deadline: callTimeout, OnFailure: headgate.Closed,
	})
	if err != nil {
		return nil, err
	}
	if o.Rule != "" {
		return &ruleTarget{client: c, rule: o.Rule}, nil
	}
	if err := o.Limit.Validate(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &limiterTarget{limiter: c.Store(), limit: o.Limit, closer: c.Close}, nil
}

// A ruleTarget gets decisions by a rule, over gRPC.
type ruleTarget struct {
	client *client.Client
	rule   string
}

var _ Target = (*ruleTarget)(nil)

func (t *ruleTarget) Take(ctx context.Context, name string) (Outcome, error) {
	a, err := t.client.RateLimit(ctx, client.Request{Rule: t.rule, User: name, APIKey: name})
	switch {
	case err != nil:
		return Outcome{}, err
	case a.Degraded && !a.Passed:
		return Outcome{}, fmt.Errorf("rule %s: the service is unreachable", t.rule)
	case a.RetryAfter == headgate.Never:
		return Outcome{}, errNever
	}
	return Outcome{Allowed: a.Passed, Degraded: a.Degraded, Delay: a.Delay, RetryAfter: a.RetryAfter}, nil
}

func (t *ruleTarget) Close() error { return t.client.Close() }
