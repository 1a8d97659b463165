package edit

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Resource is a rule, a client or an override in a response of the API. Exactly one of Rule, Client and Override is
// set.
type Resource struct {
	Rule     json.RawMessage `json:"rule,omitempty"`
	Client   json.RawMessage `json:"client,omitempty"`
	Override json.RawMessage `json:"override,omitempty"`
	Revision int64           `json:"revision"`
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	By       string          `json:"by"`
	// Warnings say why the object may not have the intended effect.
	Warnings []string `json:"warnings,omitempty"`
}

// NewResource returns an object as a Resource.
func NewResource(o *control.Object) Resource {
	r := Resource{Revision: o.Revision, Created: o.Created, Updated: o.Updated, By: o.By}
	switch o.Kind {
	case control.KindRule:
		r.Rule = o.Body
	case control.KindClient:
		r.Client = o.Body
	case control.KindOverride:
		r.Override = o.Body
	}
	return r
}

// Body returns the rule, client or override, empty if there is none.
func (r *Resource) Body() json.RawMessage { return slices.Concat(r.Rule, r.Client, r.Override) }

// A Page is one page of a list of resources. Exactly one of Rules, Clients and Overrides is set.
type Page struct {
	Rules     *[]Resource `json:"rules,omitempty"`
	Clients   *[]Resource `json:"clients,omitempty"`
	Overrides *[]Resource `json:"overrides,omitempty"`
	// Next is the cursor of the next page, empty if there is none.
	Next     string `json:"next,omitempty"`
	Total    int    `json:"total"`
	Revision int64  `json:"revision"`
}

// NewPage returns a page with objects of one kind.
func NewPage(kind control.Kind, objects []control.Object) *Page {
	list := make([]Resource, len(objects))
	for i := range objects {
		list[i] = NewResource(&objects[i])
	}
	p := &Page{}
	switch kind {
	case control.KindRule:
		p.Rules = &list
	case control.KindClient:
		p.Clients = &list
	case control.KindOverride:
		p.Overrides = &list
	}
	return p
}

// Resources returns the resources of the page.
func (p *Page) Resources() []Resource {
	for _, list := range []*[]Resource{p.Rules, p.Clients, p.Overrides} {
		if list != nil {
			return *list
		}
	}
	return nil
}
