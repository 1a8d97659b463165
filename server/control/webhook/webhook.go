package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/secret"
)

// A Webhook is a URL that receives the events of a namespace.
type Webhook struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description,omitempty"`
	Events      []string  `json:"events,omitempty"` // Revisions if empty
	Created     time.Time `json:"created"`
	By          string    `json:"by"` // ID of the token that created the webhook

	revision int64 // of the change that created it
}

// A Draft is a webhook to create, and the form in which the database stores it.
type Draft struct {
	ID          string `field:"id" json:"id"` // random if empty
	URL         string `field:"url" json:"url"`
	Description string `field:"description" json:"description,omitempty"`
	Secret      string `field:"secret" json:"secret"` // random if empty
	// Events are the kinds of events that the webhook receives: Revisions, Alerts or both. Revisions if empty.
	Events []string `field:"events" json:"events,omitempty"`
}

// Limits of webhooks.
const (
	maxWebhooks = 100  // webhooks of a namespace
	minSecret   = 16   // bytes
	maxSecret   = 1024 // bytes
)

// ErrTooMany means that the namespace has the maximum number of webhooks.
var ErrTooMany = fmt.Errorf("a namespace can have at most %d webhooks", maxWebhooks)

// Create sets the operations of the change to store a webhook, and commits the change. It returns the webhook and its
// secret. The error is a *source.Error if the draft is invalid, ErrTooMany, or a *control.Conflict if the ID exists.
func (s *Service) Create(ctx context.Context, change *control.Change, d Draft) (Webhook, string, error) {
	d.ID, d.Secret = cmp.Or(d.ID, secret.NewID()), cmp.Or(d.Secret, secret.New())
	if problems := d.problems(&s.options); len(problems) > 0 {
		return Webhook{}, "", &source.Error{Problems: problems}
	}
	query := control.Query{Namespace: change.Namespace, Kind: control.KindWebhook, Limit: 1}
	if count, err := s.db.Count(ctx, query); err != nil {
		return Webhook{}, "", err
	} else if count >= maxWebhooks {
		return Webhook{}, "", ErrTooMany
	}
	body, err := json.Marshal(d)
	if err != nil {
		return Webhook{}, "", err
	}
	change.Ops = []control.Op{{Kind: control.KindWebhook, ID: d.ID, Base: control.Absent, Body: body}}
	if err := s.db.Commit(ctx, change); err != nil {
		return Webhook{}, "", err
	}
	created := Webhook{
		ID: d.ID, URL: d.URL, Description: d.Description, Events: d.Events, Created: change.Time, By: change.Actor,
	}
	return created, d.Secret, nil
}

// List returns a page of webhooks.
func (s *Service) List(ctx context.Context, q control.Query) ([]Webhook, error) {
	objects, err := s.db.List(ctx, q)
	if err != nil {
		return nil, err
	}
	list := make([]Webhook, len(objects))
	for i := range objects {
		if list[i], _, err = parse(&objects[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Get returns a webhook, or control.ErrNotFound.
func (s *Service) Get(ctx context.Context, namespace, id string) (Webhook, error) {
	if !control.IsName(id) {
		return Webhook{}, control.ErrNotFound
	}
	o, err := s.db.Get(ctx, namespace, control.KindWebhook, id)
	if err != nil {
		return Webhook{}, err
	}
	w, _, err := parse(o)
	return w, err
}

// Delete sets the operations of the change to delete a webhook, and commits the change. It also deletes the deliveries.
func (s *Service) Delete(ctx context.Context, change *control.Change, id string) error {
	change.Ops = []control.Op{{Kind: control.KindWebhook, ID: id, Base: control.AnyRevision}}
	if err := s.db.Commit(ctx, change); err != nil {
		return err
	}
	if err := s.deleteDeliveries(ctx, change.Namespace, id); err != nil {
		s.logger.Warn("rules service: deliveries of a deleted webhook stay until they expire",
			"webhook", id, "err", err.Error())
	}
	return nil
}

// parse reads a stored webhook, and returns its secret.
func parse(o *control.Object) (Webhook, string, error) {
	var d Draft
	if err := json.Unmarshal(o.Body, &d); err != nil {
		return Webhook{}, "", fmt.Errorf("read webhook %s: %w", o.ID, err)
	}
	return Webhook{
		ID: d.ID, URL: d.URL, Description: d.Description, Events: d.Events, Created: o.Created, By: o.By, revision: o.Revision,
	}, d.Secret, nil
}

func (d *Draft) problems(options *Options) []source.Problem {
	var list []source.Problem
	if !control.IsName(d.ID) || len(d.ID) > 64 { // the ID is part of the ID of a state
		list = append(list, source.Problem{
			Path: "id", Value: rules.Quote(d.ID), Want: control.NameFormat + "; for webhooks at most 64",
		})
	}
	if len(d.Secret) < minSecret || len(d.Secret) > maxSecret {
		list = append(list, source.Problem{Path: "secret", Want: "16 to 1024 bytes, or none for a random one"})
	}
	if len(d.Description) > rules.MaxText {
		list = append(list, source.Problem{Path: "description", Want: "at most 4096 bytes"})
	}
	if want := d.kindsProblem(); want != "" {
		list = append(list, source.Problem{Path: "events", Value: fmt.Sprintf("%.60q", d.Events), Want: want})
	}
	if want := wantURL(d.URL, options); want != "" {
		list = append(list, source.Problem{Path: "url", Value: rules.Quote(d.URL), Want: want})
	}
	return list
}

// wantURL returns a description of valid URLs if the given one is invalid, otherwise "". It does not resolve host
// names.
func wantURL(text string, options *Options) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > 2048 || u.Host == "" || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https":
		return "a URL such as https://example.com/hooks, of at most 2048 bytes"
	case u.User != nil:
		return "a URL without a password, because all viewers of the webhook can see it"
	case u.Fragment != "":
		return "a URL without a fragment"
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && options.allow(addr) != nil {
		return "a URL with an address on the public network, or in a network that the server's configuration allows for " +
			"webhooks"
	}
	return ""
}

// ignoreNotFound returns nil for control.ErrNotFound, and every other error unchanged.
func ignoreNotFound(err error) error {
	if errors.Is(err, control.ErrNotFound) {
		return nil
	}
	return err
}
