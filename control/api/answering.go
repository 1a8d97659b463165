package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
)

// A question is what a rules service asks a node about one client.
type question struct {
	Node       string            `json:"node"` // who is asked
	Namespace  string            `json:"namespace"`
	Attributes map[string]string `json:"attributes"`
	// Sealed are attributes that may be secrets, in JSON, encrypted for those who have the fleet's secret: with no more than the token
	// of a node, nobody reads them.
	Sealed []byte `json:"sealed,omitempty"`
	// Rules are those to look at, all that count the client if there are none. Named tells that one that is not there is missed.
	Rules []string `json:"rules,omitempty"`
	Named bool     `json:"named,omitempty"`
	// Reset forgets what the client has consumed. Otherwise nothing changes.
	Reset bool `json:"reset,omitempty"`
	// Once is by chance, so that no two questions are the same.
	Once string `json:"once"`
}

// seal encrypts the attributes that may be secrets.
func (q *question) seal(id *identity.Identifier) error {
	open, secret := make(map[string]string), make(map[string]string)
	for name, value := range q.Attributes {
		if mayBeSecret(name) {
			secret[name] = value
		} else {
			open[name] = value
		}
	}
	if len(secret) == 0 {
		return nil
	}
	text, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	sealed, ok := id.Seal(text)
	if !ok {
		return errNoSecret
	}
	q.Attributes, q.Sealed = open, sealed
	return nil
}

// unseal puts back the attributes that were sealed.
func (q *question) unseal(id *identity.Identifier) error {
	if q.Sealed == nil {
		return nil
	}
	text, err := id.Unseal(q.Sealed)
	if err != nil {
		return err
	}
	if q.Attributes == nil {
		q.Attributes = make(map[string]string)
	}
	return json.Unmarshal(text, &q.Attributes)
}

// An answer is what a node says to it.
type answer struct {
	Node string     `json:"node"`
	Keys []ruleView `json:"keys"`
	// More is how many rules count the client besides.
	More int `json:"more,omitempty"`
	// Reset are the rules under which the client was forgotten.
	Reset []string `json:"reset,omitempty"`
	// Missing tells that the rule that was named is not there.
	Missing bool `json:"missing,omitempty"`
	// Error says which stores could not be asked.
	Error string `json:"error,omitempty"`
}

// maxKeyRules is how many rules are looked at for one client.
const maxKeyRules = 1000

// errTooManyRules is for a client that is to be forgotten under more rules than that.
var errTooManyRules = fmt.Errorf("more than %d rules count this client: name one", maxKeyRules)

// answerFrom answers a question by what a node has counted. The error is the asker's.
func answerFrom(ctx context.Context, node Local, who rules.Subject, q *question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	made := &answer{Node: q.Node, Keys: []ruleView{}}
	ids := q.Rules
	if len(ids) == 0 {
		ids, made.More = counting(node.Rules(), who)
		if q.Reset && made.More > 0 {
			return nil, errTooManyRules
		}
	}
	var errs []error
	for _, id := range ids {
		var err error
		if q.Reset {
			if err = node.Reset(ctx, id, who); err == nil {
				made.Reset = append(made.Reset, id)
			}
		} else {
			var x *engine.Explanation
			if x, err = node.ExplainTerms(ctx, who, engine.Terms{Rule: id, HasCost: true}); x != nil {
				for i := range x.Rules {
					made.Keys = append(made.Keys, ruleViewOf(&x.Rules[i]))
				}
			}
		}
		if errors.Is(err, engine.ErrNoRule) { // it has just gone, or never was
			made.Missing = made.Missing || q.Named
			continue
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		made.Error = err.Error()
	}
	return made, nil
}

// counting returns the rules that count a client by what is known of it, and how many more there are.
func counting(set *rules.Set, who rules.Subject) (ids []string, more int) {
	for _, r := range set.Rules() {
		if !counts(r, who) {
			continue
		}
		if len(ids) == maxKeyRules {
			more++
			continue
		}
		ids = append(ids, r.ID)
	}
	return ids, more
}

// counts reports whether a rule counts a client by attributes that are known.
func counts(r *rules.Rule, who rules.Subject) bool {
	if len(r.Key) == 0 {
		return false
	}
	lacks := func(a headgate.Attribute) bool {
		value, _ := who.Get(a)
		return value == ""
	}
	if !slices.ContainsFunc(r.Key, lacks) {
		return true
	}
	return r.Fallback == rules.FallbackIP && !lacks(headgate.Attribute{Kind: headgate.AttrIP})
}

// An Answerer lets a rules service ask a node what a client has left there, and have it forget that: it is the handler of POST
// /v1/hooks/keys. Only who knows its key is answered: the node tells the rules service with its heartbeats, as control.Node's
// AskKey. It is safe for concurrent use.
type Answerer struct {
	key       string
	namespace string
	node      Local
	identity  *identity.Identifier
	now       func() time.Time
	seen      memory
}

var _ http.Handler = (*Answerer)(nil)

// NewAnswerer returns one that answers for a node that has the rules of a namespace in force, with a key by chance. The Identifier
// gives attributes the form that requests have there.
func NewAnswerer(node Local, namespace string, id *identity.Identifier) *Answerer {
	return &Answerer{key: newSecret(), namespace: namespace, node: node, identity: id, now: time.Now}
}

// Key returns what those who ask have to sign with.
func (a *Answerer) Key() string { return a.key }

func (a *Answerer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	made, err := a.answer(w, r)
	if err != nil {
		p, _ := problemOf(err)
		p.answer(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = encode(w, made) // who is gone has no use for it
}

func (a *Answerer) answer(w http.ResponseWriter, r *http.Request) (*answer, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, fail(http.StatusMethodNotAllowed, "Use POST.")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHookBody))
	if err != nil {
		return nil, fail(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes, or did not arrive.", maxHookBody)
	}
	now := a.now()
	sum, err := verify([]byte(a.key), r.Header.Get(SignatureHeader), body, now)
	if err == nil {
		err = a.seen.note(sum, now)
	}
	if err != nil {
		return nil, fail(http.StatusUnauthorized, "The question is refused: %v.", err)
	}
	var q question
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fail(http.StatusBadRequest, "The question cannot be read: %v.", err)
	}
	if q.Namespace != a.namespace {
		return nil, fail(http.StatusNotFound, "The rules in force here are those of the namespace %s.", a.namespace)
	}
	if err := q.unseal(a.identity); err != nil {
		return nil, fail(http.StatusForbidden, "The question cannot be read: %v.", err)
	}
	var who identity.Attributes
	if err := a.identity.ReadValues(identity.Values{Attributes: q.Attributes}, &who); err != nil {
		return nil, at("attributes", err)
	}
	made, err := answerFrom(r.Context(), a.node, &who, &q)
	if errors.Is(err, errTooManyRules) {
		err = fail(http.StatusConflict, "%v.", err)
	}
	return made, err
}

// takeQuestion answers POST /v1/hooks/keys.
func (s *Server) takeQuestion(c *call) error {
	if s.config.Answerer == nil {
		return fail(http.StatusNotFound, "This is no node of a rules service.")
	}
	s.config.Answerer.ServeHTTP(c.w, c.r)
	return nil
}
