package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// minHookSecret is how long the secret of a webhook must be.
const minHookSecret = 16

// A storedHook is a webhook as it is kept. Its secret is needed to sign.
type storedHook struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	Secret      string `json:"secret"`
}

// A Webhook is what is told of a webhook. Its secret is told once, when it is made.
type Webhook struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	By          string    `json:"by"`
}

func hookOf(o *control.Object) (Webhook, storedHook, error) {
	var stored storedHook
	if err := json.Unmarshal(o.Body, &stored); err != nil {
		return Webhook{}, stored, fmt.Errorf("read webhook %s: %w", o.ID, err)
	}
	return Webhook{ID: stored.ID, URL: stored.URL, Description: stored.Description, Created: o.Created, By: o.By}, stored, nil
}

// listWebhooks answers GET /v1/webhooks.
func (s *Server) listWebhooks(c *call) error {
	q, limit, err := c.pageOf(c.namespace, control.KindWebhook)
	if err != nil {
		return err
	}
	objects, err := s.config.DB.List(c.r.Context(), q)
	if err != nil {
		return err
	}
	made := struct {
		Webhooks []Webhook `json:"webhooks"`
		Next     string    `json:"next,omitempty"`
	}{Webhooks: []Webhook{}}
	if len(objects) > limit {
		objects = objects[:limit]
		made.Next = makeCursor(objects[limit-1].ID)
	}
	for i := range objects {
		h, _, err := hookOf(&objects[i])
		if err != nil {
			return err
		}
		made.Webhooks = append(made.Webhooks, h)
	}
	return c.answer(http.StatusOK, made)
}

func (s *Server) findWebhook(c *call) (*control.Object, error) {
	o, err := s.get(c.r.Context(), c.namespace, control.KindWebhook, c.args[0])
	if err == nil && o == nil {
		err = fail(http.StatusNotFound, "There is no webhook %s in the namespace %s.", rules.Quote(c.args[0]), c.namespace)
	}
	return o, err
}

func (s *Server) showWebhook(c *call) error {
	o, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	h, _, err := hookOf(o)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, h)
}

func (s *Server) removeWebhook(c *call) error {
	o, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	change := c.change(c.namespace, "webhooks.delete")
	change.Ops = []control.Op{{Kind: control.KindWebhook, ID: o.ID, Base: control.Any}}
	if err := s.config.DB.Commit(c.r.Context(), change); err != nil {
		return err
	}
	if err := s.hooks.dropAll(c.r.Context(), c.namespace, o.ID); err != nil {
		s.config.Logger.Warn("rules service: deliveries of a webhook that is gone stay until their time is over", "webhook", o.ID, "err", err.Error())
	}
	return c.answer(http.StatusOK, revised{change.Revision})
}

// A newHook is what is asked for.
type newHook struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Secret      string `json:"secret"`
}

// maxHooks is how many webhooks a namespace may have.
const maxHooks = 100

// createWebhook answers POST /v1/webhooks.
func (s *Server) createWebhook(c *call) error {
	var asked newHook
	if err := c.readInto(&asked); err != nil {
		return err
	}
	setDefault(&asked.ID, newSecret()[:12])
	setDefault(&asked.Secret, newSecret())
	if errs := asked.validate(&s.config.Hooks); len(errs) > 0 {
		return invalid(errs, 0)
	}
	count, err := s.config.DB.Count(c.r.Context(), control.Query{Namespace: c.namespace, Kind: control.KindWebhook, Limit: 1})
	if err != nil {
		return err
	}
	if count >= maxHooks {
		return fail(http.StatusConflict, "The namespace %s has %d webhooks, which is the most.", c.namespace, count)
	}
	body, err := json.Marshal(storedHook(asked))
	if err != nil {
		return err
	}
	change := c.change(c.namespace, "webhooks.create")
	change.Ops = []control.Op{{Kind: control.KindWebhook, ID: asked.ID, Base: control.Absent, Body: body}}
	err = s.config.DB.Commit(c.r.Context(), change)
	if errors.Is(err, control.ErrConflict) {
		return fail(http.StatusConflict, "There is a webhook %s already. Delete it first, or choose another id.", asked.ID)
	} else if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/webhooks/"+asked.ID)
	return c.answer(http.StatusCreated, struct {
		Webhook Webhook `json:"webhook"`
		Secret  string  `json:"secret"`
	}{Webhook{ID: asked.ID, URL: asked.URL, Description: asked.Description, Created: change.Time, By: change.Actor}, asked.Secret})
}

func (h *newHook) validate(config *HookConfig) []fieldError {
	var errs []fieldError
	if !isName(h.ID) || len(h.ID) > 64 {
		errs = append(errs, fieldError{Path: "id", Value: rules.Quote(h.ID), Want: wantName + " and 64 here"})
	}
	if len(h.Secret) < minHookSecret || len(h.Secret) > 1024 {
		errs = append(errs, fieldError{Path: "secret", Want: "16 to 1024 bytes, or none: then one is made"})
	}
	if len(h.Description) > rules.MaxText {
		errs = append(errs, fieldError{Path: "description", Want: "at most 4096 bytes"})
	}
	if want := wrongHookURL(h.URL, config); want != "" {
		errs = append(errs, fieldError{Path: "url", Value: rules.Quote(h.URL), Want: want})
	}
	return errs
}

// wrongHookURL says what is wrong with an address to send webhooks to, nothing if it is right. What a name leads to is
// looked at when it is sent.
func wrongHookURL(text string, config *HookConfig) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > 2048 || u.Host == "" || u.Opaque != "" || u.Scheme != "http" && u.Scheme != "https":
		return "an address such as https://example.com/hooks, of at most 2048 bytes"
	case u.User != nil:
		return "an address without a password: everybody who sees the webhook would see it"
	case u.Fragment != "":
		return "an address without a fragment"
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !config.allows(addr) {
		return "an address on the public network, or of one of the networks that the server's configuration allows for webhooks"
	}
	return ""
}

// allows reports whether webhooks may be sent to an address.
func (c *HookConfig) allows(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, n := range c.Networks {
		if n.Contains(addr) {
			return true
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	for _, n := range reserved {
		if n.Contains(addr) {
			return false
		}
	}
	return true
}

// reserved are networks that are not public besides those that netip knows, and such as lead into others.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("fec0::/10"), netip.MustParsePrefix("::/96"),
}

// A delivery is a webhook that is sent, as it is kept and shown.
type delivery struct {
	// Revision is what it tells of, and its number.
	Revision  int64     `json:"revision"`
	Webhook   string    `json:"webhook"`
	Namespace string    `json:"namespace"`
	Changed   time.Time `json:"changed"` // when the change was made
	// State is pending, delivered or dead.
	State    string    `json:"state"`
	Attempts int       `json:"attempts"`
	Next     time.Time `json:"next,omitzero"` // when it is tried next
	Last     time.Time `json:"last,omitzero"` // when it was tried last
	Status   int       `json:"status,omitempty"`
	Error    string    `json:"error,omitempty"`
	// Owner is the server that sends it.
	Owner string `json:"owner,omitempty"`
}

// The states of deliveries.
const (
	pending   = "pending"
	delivered = "delivered"
	dead      = "dead"
)

// bucket is where the deliveries of a webhook are kept.
func bucket(namespace, id string) string { return "delivery/" + namespace + "/" + id }

// stateID puts revisions in their order.
func stateID(revision int64) string { return fmt.Sprintf("%019d", revision) }

// maxDeliveries is how many deliveries of one webhook are kept.
const maxDeliveries = 200

// deliveries returns those of a webhook that was made with a revision, the earliest first. Those before are of one that had the
// same id.
func (s *Server) deliveries(ctx context.Context, namespace, id string, made int64) ([]delivery, error) {
	states, err := s.config.DB.States(ctx, bucket(namespace, id), 2*maxDeliveries)
	if err != nil {
		return nil, err
	}
	list := make([]delivery, 0, len(states))
	for i := range states {
		var d delivery
		if err := json.Unmarshal(states[i].Body, &d); err != nil {
			return nil, fmt.Errorf("read delivery %s of webhook %s: %w", states[i].ID, id, err)
		}
		if d.Revision > made {
			list = append(list, d)
		}
	}
	return list, nil
}

// listDeliveries answers GET /v1/webhooks/{id}/deliveries, the latest first.
func (s *Server) listDeliveries(c *call) error {
	hook, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	list, err := s.deliveries(c.r.Context(), c.namespace, c.args[0], hook.Revision)
	if err != nil {
		return err
	}
	made := struct {
		Deliveries []delivery `json:"deliveries"`
	}{Deliveries: make([]delivery, 0, len(list))}
	for i := len(list) - 1; i >= 0; i-- {
		list[i].Owner = ""
		made.Deliveries = append(made.Deliveries, list[i])
	}
	return c.answer(http.StatusOK, made)
}

// retryDelivery answers POST /v1/webhooks/{id}/deliveries/{n}:retry.
func (s *Server) retryDelivery(c *call) error {
	hook, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(c.args[1], 10, 64)
	if err != nil || n < 1 {
		return fail(http.StatusNotFound, "There is no delivery %s.", rules.Quote(c.args[1]))
	}
	state, err := s.config.DB.GetState(c.r.Context(), bucket(c.namespace, c.args[0]), stateID(n))
	if errors.Is(err, control.ErrNotFound) || err == nil && n < hook.Revision {
		return fail(http.StatusNotFound, "There is no delivery %d of the webhook %s.", n, c.args[0])
	} else if err != nil {
		return err
	}
	var d delivery
	if err := json.Unmarshal(state.Body, &d); err != nil {
		return fmt.Errorf("read delivery %d of webhook %s: %w", n, c.args[0], err)
	}
	if d.State == pending {
		return fail(http.StatusConflict, "It is being delivered; the next attempt is at %s.", d.Next.Format(time.RFC3339))
	}
	d.State, d.Attempts, d.Next, d.Owner = pending, 0, s.config.Now().UTC(), s.hooks.owner
	if err := s.hooks.save(c.r.Context(), &d); err != nil {
		return err
	}
	s.hooks.push(d)
	d.Owner = ""
	return c.answer(http.StatusAccepted, d)
}

// hookName names a webhook of a namespace.
func hookName(namespace, id string) string { return strings.Join([]string{namespace, id}, "/") }
