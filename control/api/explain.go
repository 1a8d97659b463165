package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// An explainCall asks what would become of a request.
type explainCall struct {
	// Attributes are what is known of it, or it is described as a Request.
	Attributes map[string]string `json:"attributes"`
	Request    *sampleRequest    `json:"request"`
	// Rule is the one that is asked, if not all that match; its condition is not.
	Rule string `json:"rule"`
	// Cost is what it costs, if not what rules say.
	Cost *int64 `json:"cost"`
	// Draft are rules to ask instead of those in force, as a rules file has them.
	Draft json.RawMessage `json:"draft"`
}

// A sampleRequest is a request to try rules with.
type sampleRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	IP      string            `json:"ip"`
}

// lookTime is how long stores may take to be looked at.
const lookTime = 5 * time.Second

// explain answers POST /v1/explain.
func (s *Server) explain(c *call) error {
	var asked explainCall
	if err := c.readInto(&asked); err != nil {
		return err
	}
	draft, err := c.flag("draft")
	if err != nil {
		return err
	}
	if draft && asked.Draft == nil {
		return invalid([]fieldError{{Path: "draft", Want: "a rules file, since ?draft is asked"}}, 0)
	}
	who, err := s.subject(&asked)
	if err != nil {
		return err
	}
	var node Local
	if asked.Draft != nil {
		node, err = draftNode(asked.Draft)
	} else {
		node, err = s.node(c)
	}
	if err != nil {
		return err
	}
	terms := engine.Terms{Rule: asked.Rule, Unheld: true}
	if asked.Cost != nil {
		terms.Cost, terms.HasCost = *asked.Cost, true
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), lookTime)
	defer cancel()
	x, err := node.ExplainTerms(ctx, who, terms)
	if x == nil {
		return noRule(err)
	}
	made := explanationOf(x)
	if made.Draft = asked.Draft != nil; err != nil {
		made.Error = err.Error()
	}
	return c.answer(http.StatusOK, made)
}

// noRule says that a rule is not there.
func noRule(err error) error {
	if errors.Is(err, engine.ErrNoRule) {
		return fail(http.StatusNotFound, "%s.", strings.TrimPrefix(err.Error(), "engine: "))
	}
	return err
}

// node returns the node that has the rules of the call's namespace in force.
func (s *Server) node(c *call) (Local, error) {
	if s.config.Node == nil || s.config.NodeNamespace != c.namespace {
		return nil, fail(http.StatusNotFound, "There is no node here that has the rules of the namespace %s in force: ask one that has, or send a draft.", c.namespace)
	}
	return s.config.Node, nil
}

// subject returns the request that is asked about.
func (s *Server) subject(asked *explainCall) (rules.Subject, error) {
	who := new(identity.Attributes)
	switch {
	case asked.Attributes != nil && asked.Request != nil:
		return nil, invalid([]fieldError{{Path: "request", Want: "attributes or a request, not both"}}, 0)
	case asked.Request == nil:
		if err := s.config.Identifier.ReadValues(identity.Values{Attributes: asked.Attributes}, who); err != nil {
			return nil, at("attributes", err)
		}
		return who, nil
	}
	sample := asked.Request
	to, err := url.Parse(sample.URL)
	if err != nil || sample.URL == "" {
		return nil, invalid([]fieldError{{Path: "request.url", Value: rules.Quote(sample.URL), Want: "an address, as in https://api.example.com/search?q=x"}}, 0)
	}
	r := &http.Request{Method: sample.Method, URL: to, Host: to.Host, Header: http.Header{}, RequestURI: to.RequestURI()}
	setDefault(&r.Method, http.MethodGet)
	for name, value := range sample.Headers {
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	if sample.IP != "" {
		if err := s.config.Identifier.ReadValues(identity.Values{IP: sample.IP}, who); err != nil {
			return nil, at("request.ip", err)
		}
		r.RemoteAddr = who.Addr().String()
	}
	s.config.Identifier.Read(r, who)
	if err := who.Malformed(); err != nil {
		return nil, invalid([]fieldError{{Path: "request", Value: err.Error(), Want: "a request that can be served"}}, 0)
	}
	return who, nil
}

// at says where in a body it is that an input is wrong.
func at(path string, err error) error {
	var input *headgate.InputError
	if !errors.As(err, &input) {
		return err
	}
	if path == "attributes" {
		if name, err := strconv.Unquote(input.Value); err == nil && input.Field == "attribute" {
			return invalid([]fieldError{{Path: join(path, name), Value: "unknown attribute", Want: input.Want}}, 0)
		}
		path = join(path, input.Field)
	}
	return invalid([]fieldError{{Path: path, Value: input.Value, Want: input.Want}}, 0)
}

// draftNode returns a node that has rules in force that are only thought of, and has counted nothing yet.
func draftNode(text []byte) (Local, error) {
	doc, err := readDraft("body.json", text)
	if err != nil {
		return nil, below("draft", err)
	}
	set, err := compileDraft(doc)
	if err != nil {
		return nil, below("draft", err)
	}
	return engine.New(engine.Config{
		Rules: set, Store: untouched{},
		Modes:  map[rules.Consistency]headgate.Limiter{rules.Lease: untouched{}, rules.Async: untouched{}, rules.Gossip: untouched{}},
		Global: map[rules.Consistency]headgate.Limiter{rules.Exact: untouched{}, rules.Lease: untouched{}, rules.Async: untouched{}},
	})
}

// below says that what is wrong is in a field.
func below(field string, err error) error {
	p, fault := problemOf(err)
	if fault {
		return err
	}
	for i := range p.Errors {
		p.Errors[i].Path = join(field, p.Errors[i].Path)
		p.Errors[i].Line, p.Errors[i].Column = 0, 0
	}
	return p
}

// untouched is a store of which nothing was taken yet. It can only be looked at.
type untouched struct{}

var _ headgate.Limiter = untouched{}

func (untouched) Take(_ context.Context, c headgate.Check) (headgate.Decision, error) {
	if c.Cost != 0 {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	return headgate.Decision{Allowed: true, Limit: c.Limit.Capacity(), Remaining: c.Limit.Capacity()}, nil
}

func (untouched) TakeAll(context.Context, []headgate.Check, []headgate.Decision) ([]headgate.Decision, error) {
	return nil, headgate.ErrUnsupported
}

func (untouched) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrUnsupported
}

func (untouched) Give(context.Context, headgate.Check, headgate.Receipt) error {
	return headgate.ErrUnsupported
}

func (untouched) Renew(context.Context, headgate.Check, headgate.Receipt) (bool, error) {
	return false, headgate.ErrUnsupported
}

func (untouched) Reset(context.Context, headgate.Check) error { return headgate.ErrUnsupported }

// An explanation is what would become of a request.
type explanation struct {
	Action       string `json:"action"` // allow, delay, reject or drop
	Reason       string `json:"reason,omitempty"`
	Status       int    `json:"status,omitempty"`
	Rule         string `json:"rule,omitempty"` // the one that binds
	RetryAfterMS int64  `json:"retry_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	Degraded     bool   `json:"degraded,omitempty"`
	Draft        bool   `json:"draft,omitempty"`
	// Properties are those of the client that conditions of rules ask for, by their names.
	Properties map[string]string `json:"properties,omitempty"`
	Rules      []ruleView        `json:"rules"`
	// Error says which stores could not be looked at.
	Error string `json:"error,omitempty"`
}

// A ruleView is what one rule says.
type ruleView struct {
	ID     string `json:"id"`
	Effect string `json:"effect"`
	Denied bool   `json:"denied,omitempty"`
	// Mode is how counters are shared, or degraded: the store could not be asked, and on_failure decides.
	Mode      string `json:"mode"`
	Shadow    bool   `json:"shadow,omitempty"`
	Shared    bool   `json:"shared,omitempty"`
	Penalized bool   `json:"penalized,omitempty"`
	Override  *int   `json:"override,omitempty"`
	Client    string `json:"client,omitempty"`
	// Properties are those of the client that the rule counts, as far as conditions ask for them.
	Properties map[string]string `json:"properties,omitempty"`
	Key        []keyPart         `json:"key"`
	Cost       int64             `json:"cost"`
	Limits     []limitView       `json:"limits"`
}

// A keyPart is an attribute that a rule counts by.
type keyPart struct {
	Attribute string `json:"attribute"`
	Value     string `json:"value"`
}

// A limitView is what one limit says. Times of −1 are never.
type limitView struct {
	Name     string `json:"name"`
	Limit    string `json:"limit"`
	Allowed  bool   `json:"allowed"`
	Capacity int64  `json:"capacity"`
	// Remaining and ResetAfterMS are null if they are not known, because the store could not be asked.
	Remaining    *int64 `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS *int64 `json:"reset_after_ms"`
	DelayMS      int64  `json:"delay_ms,omitempty"`
}

func explanationOf(x *engine.Explanation) explanation {
	v := &x.Verdict
	made := explanation{
		Action: v.Action.String(), Status: v.Status, RetryAfterMS: millis(v.RetryAfter), DelayMS: millis(v.Delay), Degraded: v.Degraded,
		Rules: make([]ruleView, len(x.Rules)), Properties: byName(x.Properties),
	}
	if v.Reason != engine.None {
		made.Reason = v.Reason.String()
	}
	if v.Rule != nil {
		made.Rule = v.Rule.ID
	}
	for i := range x.Rules {
		made.Rules[i] = ruleViewOf(&x.Rules[i])
	}
	return made
}

func byName(list []rules.Property) map[string]string {
	made := make(map[string]string, len(list))
	for _, p := range list {
		made[p.Name] = p.Value
	}
	return made
}

func ruleViewOf(e *engine.Explained) ruleView {
	made := ruleView{
		ID: e.Rule.ID, Effect: e.Effect.String(), Denied: e.Denied, Mode: e.Mode.String(), Shadow: e.Shadow, Shared: e.Shared,
		Penalized: e.Penalized, Client: e.Client, Cost: e.Cost, Key: []keyPart{}, Limits: []limitView{},
		Properties: byName(e.Properties),
	}
	if e.Override >= 0 {
		made.Override = &e.Override
	}
	for _, k := range e.Key {
		made.Key = append(made.Key, keyPart{k.Attribute.String(), k.Value})
	}
	for i := range e.Limits {
		made.Limits = append(made.Limits, limitViewOf(&e.Limits[i]))
	}
	if e.Degraded {
		made.Mode = degradedMode
	}
	return made
}

// degradedMode is the mode of a rule whose store could not be asked.
const degradedMode = "degraded"

func limitViewOf(l *engine.Applied) limitView {
	made := limitView{
		Name: l.Name, Limit: l.Limit.String(), Allowed: l.Decision.Allowed, Capacity: l.Decision.Limit,
		RetryAfterMS: millis(l.Decision.RetryAfter), DelayMS: millis(l.Decision.Delay),
	}
	if !l.Decision.Degraded {
		left, reset := l.Decision.Remaining, millis(l.Decision.ResetAfter)
		made.Remaining, made.ResetAfterMS = &left, &reset
	}
	return made
}

// millis returns a time in milliseconds, rounded up: −1 for never.
func millis(d time.Duration) int64 {
	if d == headgate.Never {
		return -1
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
