package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
)

// validate serves POST /v1/validate.
func (s *Server) validate(c *call.Call) error {
	name, data, err := c.ReadBody()
	if err != nil {
		return err
	}
	doc, err := readDraft(name, data)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, struct {
		Valid   bool `json:"valid"`
		Rules   int  `json:"rules"`
		Clients int  `json:"clients"`
	}{true, len(doc.Rules), len(doc.Clients)})
}

// readDraft reads a rules file, or one rule.
func readDraft(name string, data []byte) (*file.Document, error) {
	f, err := source.Read(name, data)
	if err != nil {
		return nil, err
	}
	if f.Root == nil || f.Root.Kind != source.Map {
		return nil, problem.InvalidField("", "", "a rules file, which has rules and clients, or one rule")
	}
	if f.Root.Field("id") == nil || f.Root.Field("rules") != nil {
		return file.FromSource(f)
	}
	r, err := file.ReadRule(name, data)
	if err != nil {
		return nil, err
	}
	return &file.Document{Rules: []rules.Rule{r}}, nil
}

// newDraftNode returns a node with the rules of a draft and no counters.
func newDraftNode(draft []byte) (nodequery.Node, error) {
	doc, err := readDraft(call.JSON, draft)
	if err != nil {
		return nil, call.InvalidDraft(err)
	}
	set, err := doc.Compile()
	var invalid *rules.Error
	if errors.As(err, &invalid) && len(doc.Rules) == 1 {
		for i := range invalid.Problems {
			invalid.Problems[i].Path = strings.TrimPrefix(invalid.Problems[i].Path, "rules[0].")
		}
	}
	if err != nil {
		return nil, call.InvalidDraft(err)
	}
	store := draftStore{}
	return engine.New(engine.Config{
		Rules: set, Store: store,
		Modes:  map[rules.Consistency]headgate.Limiter{rules.Lease: store, rules.Async: store, rules.Gossip: store},
		Global: map[rules.Consistency]headgate.Limiter{rules.Exact: store, rules.Lease: store, rules.Async: store},
	})
}

// A draftStore is a read-only store in which no units are taken.
type draftStore struct{}

var _ headgate.Limiter = draftStore{}

func (draftStore) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrUnsupported
}

func (draftStore) Peek(_ context.Context, c headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{Allowed: true, Limit: c.Limit.Capacity(), Remaining: c.Limit.Capacity()}, nil
}

func (draftStore) TakeAll(context.Context, []headgate.Check, []headgate.Decision) ([]headgate.Decision, error) {
	return nil, headgate.ErrUnsupported
}

func (draftStore) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, headgate.ErrUnsupported
}

func (draftStore) Give(context.Context, headgate.Check, headgate.Receipt) error {
	return headgate.ErrUnsupported
}

func (draftStore) Renew(context.Context, headgate.Check, headgate.Receipt) (bool, error) {
	return false, headgate.ErrUnsupported
}

func (draftStore) Reset(context.Context, headgate.Check) error { return headgate.ErrUnsupported }
