package api

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/webhook"
)

// listWebhooks serves GET /v1/webhooks.
func (s *Server) listWebhooks(c *call.Call) error {
	q, limit, err := c.ObjectQuery(control.KindWebhook)
	if err != nil {
		return err
	}
	list, err := s.webhooks.List(c.R.Context(), q)
	if err != nil {
		return err
	}
	response := struct {
		Webhooks []webhook.Webhook `json:"webhooks"`
		Next     string            `json:"next,omitempty"`
	}{Webhooks: list}
	if len(list) > limit {
		response.Webhooks, response.Next = list[:limit], call.NewCursor(list[limit-1].ID)
	}
	return c.Respond(http.StatusOK, response)
}

// findWebhook returns the webhook in the path.
func (s *Server) findWebhook(c *call.Call) (webhook.Webhook, error) {
	w, err := s.webhooks.Get(c.R.Context(), c.Namespace, c.Args[0])
	if errors.Is(err, control.ErrNotFound) {
		err = problem.New(http.StatusNotFound,
			"There is no webhook %s in the namespace %s.", rules.Quote(c.Args[0]), c.Namespace)
	}
	return w, err
}

// getWebhook serves GET /v1/webhooks/{id}.
func (s *Server) getWebhook(c *call.Call) error {
	w, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, w)
}

// deleteWebhook serves DELETE /v1/webhooks/{id}.
func (s *Server) deleteWebhook(c *call.Call) error {
	w, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	change := c.Change(c.Namespace, "webhooks.delete")
	if err := s.webhooks.Delete(c.R.Context(), change, w.ID); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, call.RevisionOnly{Revision: change.Revision})
}

// createWebhook serves POST /v1/webhooks.
func (s *Server) createWebhook(c *call.Call) error {
	var draft webhook.Draft
	if err := c.ReadJSON(&draft); err != nil {
		return err
	}
	created, secret, err := s.webhooks.Create(c.R.Context(), c.Change(c.Namespace, "webhooks.create"), draft)
	switch {
	case errors.Is(err, webhook.ErrTooMany):
		return problem.New(http.StatusConflict, "The namespace %s cannot have another webhook: %v.", c.Namespace, err)
	case errors.Is(err, control.ErrConflict):
		return problem.New(http.StatusConflict,
			"There is a webhook %s already. Delete it first, or choose another id.", draft.ID)
	case err != nil:
		return err
	}
	c.W.Header().Set("Location", "/v1/webhooks/"+created.ID)
	return c.Respond(http.StatusCreated, struct {
		Webhook webhook.Webhook `json:"webhook"`
		Secret  string          `json:"secret"`
	}{created, secret})
}

// listDeliveries serves GET /v1/webhooks/{id}/deliveries.
func (s *Server) listDeliveries(c *call.Call) error {
	w, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	list, err := s.webhooks.Deliveries(c.R.Context(), c.Namespace, &w)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, struct {
		Deliveries []webhook.Delivery `json:"deliveries"`
	}{list})
}

// retryDelivery serves POST /v1/webhooks/{id}/deliveries/{n}:retry.
func (s *Server) retryDelivery(c *call.Call) error {
	w, err := s.findWebhook(c)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(c.Args[1], 10, 64)
	if err != nil || n < 1 {
		return problem.New(http.StatusNotFound, "There is no delivery %s.", rules.Quote(c.Args[1]))
	}
	d, err := s.webhooks.Retry(c.R.Context(), c.Namespace, &w, n)
	var pending *webhook.PendingError
	switch {
	case errors.Is(err, control.ErrNotFound):
		return problem.New(http.StatusNotFound, "There is no delivery %d of the webhook %s.", n, w.ID)
	case errors.As(err, &pending):
		return problem.New(http.StatusConflict, "%v.", err)
	case err != nil:
		return err
	}
	s.recordEvent(c, c.Namespace, eventRetry, retryEvent{Webhook: w.ID, Delivery: n})
	return c.Respond(http.StatusAccepted, d)
}

// receiveHook serves POST /v1/hooks/rules.
func (s *Server) receiveHook(c *call.Call) error {
	if s.config.Hook == nil {
		return problem.New(http.StatusNotFound, "This process does not receive webhooks.")
	}
	s.config.Hook.ServeHTTP(c.W, c.R)
	return nil
}
