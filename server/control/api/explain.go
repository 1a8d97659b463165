package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
)

// An explainRequest asks how a request would be decided.
type explainRequest struct {
	// Attributes or Request describe the request.
	Attributes map[string]string `field:"attributes"`
	Request    *sampleRequest    `field:"request"`
	// Rule, if not empty, is the only rule to apply, even if its condition does not match. Default all rules that match.
	Rule string `field:"rule"`
	// Cost is the cost of the request. Default the cost that each rule sets.
	Cost *int64 `field:"cost"`
	// Draft is a rules file to use instead of the rules in force.
	Draft json.RawMessage `field:"draft"`
}

// A sampleRequest is an HTTP request to explain.
type sampleRequest struct {
	Method  string            `field:"method"`
	URL     string            `field:"url"`
	Headers map[string]string `field:"headers"`
	IP      string            `field:"ip"`
}

// explain serves POST /v1/explain.
func (s *Server) explain(c *call.Call) error {
	var request explainRequest
	if err := c.ReadJSON(&request); err != nil {
		return err
	}
	isDraft, err := c.Flag("draft")
	if err != nil {
		return err
	}
	if isDraft && request.Draft == nil {
		return problem.InvalidField("draft", "", "a rules file, which ?draft requires")
	}
	subject, err := s.subject(&request)
	if err != nil {
		return err
	}
	node, err := s.explainingNode(c, request.Draft)
	if err != nil {
		return err
	}
	options := engine.DecideOptions{Rule: request.Rule, NoWait: true}
	if request.Cost != nil {
		options.Cost, options.HasCost = *request.Cost, true
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), nodequery.StoreTimeout)
	defer cancel()
	x, err := node.ExplainWith(ctx, subject, options)
	if x == nil {
		if errors.Is(err, engine.ErrNoRule) {
			return problem.New(http.StatusNotFound, "%s.", strings.TrimPrefix(err.Error(), "engine: "))
		}
		return err
	}
	response := newExplanation(x)
	response.Draft = request.Draft != nil
	if request.Request != nil {
		response.UnusedHeaders = s.unusedHeaders(request.Request, node.Rules().Attributes())
	}
	if err != nil {
		response.Error = nodequery.StoreErrorText(err)
	}
	return c.Respond(http.StatusOK, response)
}

// explainingNode returns a node with the draft's rules, or the node in this process if there is no draft.
func (s *Server) explainingNode(c *call.Call, draft []byte) (nodequery.Node, error) {
	if draft != nil {
		return newDraftNode(draft)
	}
	if s.config.Node == nil || s.config.NodeNamespace != c.Namespace {
		return nil, problem.New(http.StatusNotFound,
			"This process has no node with the rules of the namespace %s: call a node that has them, or send a draft.",
			c.Namespace)
	}
	return s.config.Node, nil
}

// subject returns the attributes of the request to explain.
func (s *Server) subject(request *explainRequest) (rules.Subject, error) {
	sample := request.Request
	if sample == nil {
		subject, err := nodequery.ReadAttributes(s.config.Identifier, request.Attributes)
		if err != nil {
			return nil, problem.InvalidInput("attributes", err)
		}
		return subject, nil
	}
	if request.Attributes != nil {
		return nil, problem.InvalidField("request", "", "attributes or a request, not both")
	}
	u, err := url.Parse(sample.URL)
	if err != nil || sample.URL == "" {
		want := "a URL, such as https://api.example.com/search?q=x"
		return nil, problem.InvalidField("request.url", rules.Quote(sample.URL), want)
	}
	r := &http.Request{
		Method: cmp.Or(sample.Method, http.MethodGet), URL: u, RequestURI: u.RequestURI(), Host: u.Host,
		Header: http.Header{},
	}
	for name, value := range sample.Headers {
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	subject := new(identity.Attributes)
	if sample.IP != "" {
		if err := s.config.Identifier.ReadValues(identity.Values{IP: sample.IP}, subject); err != nil {
			return nil, problem.InvalidInput("request.ip", err)
		}
		r.RemoteAddr = subject.Addr().String()
	}
	s.config.Identifier.Read(r, subject)
	if err := subject.Validate(); err != nil {
		return nil, problem.InvalidField("request", err.Error(), "a request that can be served")
	}
	return subject, nil
}

// An explanation is the response to an explainRequest.
type explanation struct {
	Action       string `json:"action"` // allow, delay, reject or drop
	Reason       string `json:"reason,omitempty"`
	Status       int    `json:"status,omitempty"`
	Rule         string `json:"rule,omitempty"` // the rule that determines the action
	RetryAfterMS int64  `json:"retry_after_ms"`
	DelayMS      int64  `json:"delay_ms"`
	Degraded     bool   `json:"degraded,omitempty"`
	Draft        bool   `json:"draft,omitempty"`
	// Properties are the client's properties that conditions of rules use.
	Properties map[string]string `json:"properties,omitempty"`
	Rules      []nodequery.Rule  `json:"rules"`
	// UnusedHeaders are headers of the request that no rule uses and that do not identify clients.
	UnusedHeaders []string `json:"unused_headers,omitempty"`
	// Error names the stores that are unreachable.
	Error string `json:"error,omitempty"`
}

func newExplanation(x *engine.Explanation) explanation {
	v := &x.Verdict
	e := explanation{
		Action: v.Action.String(), Status: v.Status, RetryAfterMS: nodequery.Milliseconds(v.RetryAfter),
		DelayMS: nodequery.Milliseconds(v.Delay), Degraded: v.Degraded, Properties: nodequery.Properties(x.Properties),
		Rules: make([]nodequery.Rule, len(x.Rules)),
	}
	if v.Reason != engine.None {
		e.Reason = v.Reason.String()
	}
	if v.Rule != nil {
		e.Rule = v.Rule.ID
	}
	for i := range x.Rules {
		e.Rules[i] = nodequery.NewRule(&x.Rules[i])
	}
	return e
}

// unusedHeaders returns the headers of a request that no rule uses, and that do not identify clients. used are the
// attributes that the rules use.
func (s *Server) unusedHeaders(sample *sampleRequest, used []headgate.Attribute) []string {
	var list []string
	for name := range sample.Headers {
		attribute := headgate.Attribute{Kind: headgate.AttrHeader, Name: strings.ToLower(name)}
		if !s.config.Identifier.Identifies(http.CanonicalHeaderKey(name)) && !slices.Contains(used, attribute) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}
