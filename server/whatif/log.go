package whatif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/accesslogs"
)

// LogOptions configure ReadLog. Set and Identifier are required.
type LogOptions struct {
	// Set contains the rules. ReadLog reads the traffic of each of them.
	Set *match.Set
	// Identifier normalizes the attributes in the log, as it normalizes the attributes of requests.
	Identifier *identity.Identifier
	// MaxEvents is the maximum number of events that are kept for all rules together. If the log has more, ReadLog keeps
	// only a sample of the clients. An event needs about 16 bytes. Default 20 million.
	MaxEvents int
}

const defaultMaxEvents = 20_000_000

// A logTraffic collects the traffic of a rule.
type logTraffic struct {
	Traffic
	byKey map[uint64]*Client
}

// ReadLog reads the traffic of each rule from a log. If ctx ends, it returns the traffic so far and the error of ctx.
func ReadLog(ctx context.Context, logs *accesslogs.Reader, o LogOptions) (map[string]*Traffic, error) {
	o.MaxEvents = cmp.Or(o.MaxEvents, defaultMaxEvents)
	byRule := map[string]*logTraffic{}
	for _, r := range o.Set.Rules() {
		byRule[r.ID] = &logTraffic{byKey: map[uint64]*Client{}, Traffic: Traffic{OneIn: 1}}
	}
	var (
		request accesslogs.Request
		subject identity.Attributes
		matched []match.Result
		base    []byte
		events  int
		ended   error
	)
	seed := maphash.MakeSeed()
	for n := 0; ; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			ended = ctx.Err()
			break
		}
		if err := logs.Read(&request); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if err := o.Identifier.ReadValues(identity.Values{Attributes: request.Attributes}, &subject); err != nil {
			logs.Unread(logs.Line(), err)
			continue
		}
		matched = o.Set.Match(&subject, matched[:0])
		for i := range matched {
			m := &matched[i]
			if !counts(m.Effect) {
				continue
			}
			base = m.AppendKeyBase(base[:0], &subject)
			events += byRule[m.Rule.ID].add(m, maphash.Bytes(seed, base), &subject, request.Time)
		}
		if events > o.MaxEvents {
			events = 0
			for _, t := range byRule {
				t.halve()
				events += t.Events()
			}
		}
	}
	result := make(map[string]*Traffic, len(byRule))
	for id, t := range byRule {
		t.finish(logs.Stats().WholeSeconds)
		result[id] = &t.Traffic
	}
	return result, ended
}

// add adds a request, and returns the number of new events, 0 or 1.
func (t *logTraffic) add(m *match.Result, key uint64, s *identity.Attributes, at time.Time) int {
	if t.From.IsZero() || at.Before(t.From) {
		t.From = at
	}
	if at.After(t.To) {
		t.To = at
	}
	if !Sampled(key, t.OneIn) {
		return 0
	}
	c := t.byKey[key]
	if c == nil {
		attributes, names := rules.Attributes{}, map[string]string{}
		for _, a := range match.KeyAttributes(m.Rule, m.ByIP()) {
			if value, ok := s.Get(a); ok {
				attributes[a], names[a.String()] = value, value
			}
		}
		c = &Client{Key: key, Subject: attributes, Name: names}
		t.byKey[key] = c
		t.Clients = append(t.Clients, c)
	}
	us, cost := at.UnixMicro(), uint32(min(m.Rule.Cost.Initial(s), math.MaxUint32))
	if n := len(c.Events); n > 0 && c.Events[n-1].At == us && c.Events[n-1].Cost == cost {
		c.Events[n-1].Count++
		return 0
	}
	c.Events = append(c.Events, Event{At: us, Count: 1, Cost: cost})
	return 1
}

// halve removes about half of the clients.
func (t *logTraffic) halve() {
	t.Thin(2 * t.OneIn)
	clear(t.byKey)
	for _, c := range t.Clients {
		t.byKey[c.Key] = c
	}
}

// finish sorts the events of all clients.
func (t *logTraffic) finish(wholeSeconds bool) {
	for _, c := range t.Clients {
		if wholeSeconds {
			c.Spread = time.Second
		}
		slices.SortStableFunc(c.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	}
	t.byKey = nil
}

// LogNotes returns notes for Result.Notes about facts that a log does not contain.
func LogNotes(s accesslogs.Stats, rule *rules.Rule) []string {
	var list []string
	if s.WholeSeconds && s.Requests > 0 {
		list = append(list, "The log has whole seconds: a client's requests of one second are spread evenly over it.")
	}
	if s.Skipped > 0 {
		list = append(list, fmt.Sprintf("%d of %d lines of the log could not be read.", s.Skipped, s.Lines))
	}
	if s.Incomplete != "" {
		list = append(list, fmt.Sprintf("The rest of the log could not be read: %s.", s.Incomplete))
	}
	if len(rule.Overrides) > 0 {
		list = append(list, "Overrides are found by the attributes of the rule's key only.")
	}
	return list
}

// counts reports whether a request with this effect is part of the traffic of the rule.
func counts(e match.Effect) bool {
	return e == match.Limited || e == match.Unlimited || e == match.Blocked || e == match.UnknownClient
}
