package target

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

func openRESP(u *url.URL, o Options) (Target, error) {
	t := &respTarget{rule: o.Rule}
	if o.Rule == "" {
		var err error
		if t.throttle, err = throttleArguments(o.Limit); err != nil {
			return nil, err
		}
	}
	password, _ := u.User.Password()
	if o.Token != "" {
		password = o.Token
	}
	var err error
	t.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{u.Host}, Username: u.User.Username(), Password: password,
		DisableCache: true, ForceSingleClient: true, DisableRetry: true, // a retry would count twice
		Dialer: net.Dialer{Timeout: dialTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", u.Redacted(), err)
	}
	return t, nil
}

// throttleArguments returns the arguments of CL.THROTTLE for a limit.
func throttleArguments(l headgate.Limit) ([]string, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if l.Algorithm != headgate.TokenBucket && l.Algorithm != headgate.GCRA {
		return nil, fmt.Errorf("CL.THROTTLE uses the algorithm gcra, not %s: name a rule of the target instead", l.Algorithm)
	}
	if l.Period%time.Second != 0 {
		return nil, fmt.Errorf("CL.THROTTLE accepts only whole seconds, not %v: name a rule of the target instead", l.Period)
	}
	return []string{
		strconv.FormatInt(l.Capacity()-1, 10), strconv.FormatInt(l.Count, 10),
		strconv.FormatInt(int64(l.Period/time.Second), 10),
	}, nil
}

// A respTarget gets decisions from a node over RESP. It sends HG.TAKE if there is a rule, otherwise CL.THROTTLE.
type respTarget struct {
	client   rueidis.Client
	rule     string
	throttle []string
}

var _ Target = (*respTarget)(nil)

func (t *respTarget) Take(ctx context.Context, client string) (Outcome, error) {
	command := t.client.B().Arbitrary("HG.TAKE").Args(t.rule, client)
	if t.rule == "" {
		command = t.client.B().Arbitrary("CL.THROTTLE").Args(client).Args(t.throttle...)
	}
	reply, err := t.client.Do(ctx, command.Build()).AsIntSlice()
	switch {
	case err != nil:
		return Outcome{}, err
	case len(reply) < 5:
		return Outcome{}, fmt.Errorf("got %d integers from %s, want 5", len(reply), t.name())
	case t.rule != "":
		if reply[0] == 0 && reply[3] < 0 {
			return Outcome{}, errNever
		}
		return Outcome{Allowed: reply[0] == 1, RetryAfter: time.Duration(reply[3]) * time.Millisecond}, nil
	}
	return Outcome{Allowed: reply[0] == 0, RetryAfter: time.Duration(max(reply[3], 0)) * time.Second, Coarse: true}, nil
}

func (t *respTarget) name() string {
	if t.rule == "" {
		return "CL.THROTTLE"
	}
	return "HG.TAKE"
}

func (t *respTarget) Close() error {
	t.client.Close()
	return nil
}
