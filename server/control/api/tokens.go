package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

// whoAmI serves GET /v1/whoami. It returns the caller and the reasons why changes are refused here.
func (s *Server) whoAmI(c *call.Call) error {
	return c.Respond(http.StatusOK, struct {
		*token.Principal
		ReadOnly    string `json:"read_only,omitempty"`
		NoOverrides string `json:"no_overrides,omitempty"`
	}{c.Caller, s.config.ReadOnly, s.config.NoOverrides})
}

// listTokens serves GET /v1/tokens.
func (s *Server) listTokens(c *call.Call) error {
	after, limit, err := c.Page()
	if err != nil {
		return err
	}
	list, more, err := s.tokens.List(c.R.Context(), c.Caller, after, limit)
	if err != nil {
		return err
	}
	response := struct {
		Tokens []token.Token `json:"tokens"`
		Next   string        `json:"next,omitempty"`
	}{Tokens: list}
	if more {
		response.Next = call.NewCursor(list[limit-1].ID)
	}
	return c.Respond(http.StatusOK, response)
}

// findToken returns the token in the path, if the caller may see it.
func (s *Server) findToken(c *call.Call) (token.Token, error) {
	t, err := s.tokens.Get(c.R.Context(), c.Caller, c.Args[0])
	if errors.Is(err, control.ErrNotFound) {
		err = problem.New(http.StatusNotFound,
			"There is no token %s, or it is valid for namespaces that your token does not cover.", rules.Quote(c.Args[0]))
	}
	return t, err
}

// getToken serves GET /v1/tokens/{id}.
func (s *Server) getToken(c *call.Call) error {
	t, err := s.findToken(c)
	if err != nil {
		return err
	}
	return c.Respond(http.StatusOK, t)
}

// revokeToken serves DELETE /v1/tokens/{id}.
func (s *Server) revokeToken(c *call.Call) error {
	t, err := s.findToken(c)
	if err != nil {
		return err
	}
	change := c.Change(control.SystemNamespace, "tokens.revoke")
	if err := s.tokens.Revoke(c.R.Context(), change, t.ID); err != nil {
		return err
	}
	return c.Respond(http.StatusOK, call.RevisionOnly{Revision: change.Revision})
}

// createToken serves POST /v1/tokens.
func (s *Server) createToken(c *call.Call) error {
	var draft token.Draft
	if err := c.ReadJSON(&draft); err != nil {
		return err
	}
	if list := draft.Validate(s.config.Now()); len(list) > 0 {
		return problem.Invalid(list, 0)
	}
	if !c.Caller.CoversEach(draft.Namespaces) {
		return problem.New(http.StatusForbidden,
			"The token %s is not valid for all of the namespaces %s, so it cannot create a token for them.",
			c.Caller.ID, strings.Join(draft.Namespaces, ", "))
	}
	created, secret, err := s.tokens.Create(c.R.Context(), c.Change(control.SystemNamespace, "tokens.create"), draft)
	if errors.Is(err, control.ErrConflict) {
		return problem.New(http.StatusConflict,
			"There is a token %s already. Revoke it first, or choose another id.", draft.ID)
	} else if err != nil {
		return err
	}
	c.W.Header().Set("Location", "/v1/tokens/"+draft.ID)
	return c.Respond(http.StatusCreated, struct {
		Token  token.Token `json:"token"`
		Secret string      `json:"secret"`
	}{created, secret})
}
