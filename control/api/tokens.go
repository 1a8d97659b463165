package api

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// whoAmI answers GET /v1/whoami, with what nobody may do here.
func (s *Server) whoAmI(c *call) error {
	return c.answer(http.StatusOK, struct {
		*principal
		ReadOnly    string `json:"read_only,omitempty"`
		NoOverrides string `json:"no_overrides,omitempty"`
	}{c.who, s.config.ReadOnly, s.config.NoOverrides})
}

// A Token is what is told of a token. Its secret is told once, when it is made.
type Token struct {
	ID          string    `json:"id"`
	Role        Role      `json:"role"`
	Namespaces  []string  `json:"namespaces"`
	Description string    `json:"description,omitempty"`
	Expires     time.Time `json:"expires,omitzero"`
	Expired     bool      `json:"expired,omitempty"`
	Created     time.Time `json:"created"`
	By          string    `json:"by"`
}

func (s *Server) tokenOf(o *control.Object) (Token, error) {
	var stored storedToken
	if err := json.Unmarshal(o.Body, &stored); err != nil {
		return Token{}, fmt.Errorf("read token %s: %w", o.ID, err)
	}
	return Token{
		ID: stored.ID, Role: stored.Role, Namespaces: stored.Namespaces, Description: stored.Description,
		Expires: stored.Expires, Expired: !stored.Expires.IsZero() && !s.config.Now().Before(stored.Expires),
		Created: o.Created, By: o.By,
	}, nil
}

// listTokens answers GET /v1/tokens with those that are for nothing that the caller's is not.
func (s *Server) listTokens(c *call) error {
	q, limit, err := c.pageOf(systemNamespace, control.KindToken)
	if err != nil {
		return err
	}
	page := struct {
		Tokens []Token `json:"tokens"`
		Next   string  `json:"next,omitempty"`
	}{Tokens: []Token{}}
	for {
		objects, err := s.config.DB.List(c.r.Context(), q)
		if err != nil {
			return err
		}
		for i := range objects {
			t, err := s.tokenOf(&objects[i])
			if err != nil {
				return err
			}
			if !c.who.coversEach(t.Namespaces) {
				continue
			}
			if len(page.Tokens) == limit {
				page.Next = makeCursor(page.Tokens[limit-1].ID)
				return c.answer(http.StatusOK, page)
			}
			page.Tokens = append(page.Tokens, t)
		}
		if len(objects) < q.Limit {
			return c.answer(http.StatusOK, page)
		}
		q.AfterNamespace, q.AfterID = systemNamespace, objects[len(objects)-1].ID
	}
}

// findToken returns a token that the caller may know of.
func (s *Server) findToken(c *call) (Token, error) {
	o, err := s.config.DB.Get(c.r.Context(), systemNamespace, control.KindToken, c.args[0])
	if errors.Is(err, control.ErrNotFound) {
		return Token{}, noToken(c.args[0])
	} else if err != nil {
		return Token{}, err
	}
	t, err := s.tokenOf(o)
	if err == nil && !c.who.coversEach(t.Namespaces) {
		err = noToken(c.args[0])
	}
	return t, err
}

func noToken(id string) error {
	return fail(http.StatusNotFound, "There is no token %s, or it is for namespaces that yours is not for.", rules.Quote(id))
}

func (s *Server) showToken(c *call) error {
	t, err := s.findToken(c)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, t)
}

// revokeToken answers DELETE /v1/tokens/{id}.
func (s *Server) revokeToken(c *call) error {
	if _, err := s.findToken(c); err != nil {
		return err
	}
	change := c.change(systemNamespace, "tokens.revoke")
	change.Ops = []control.Op{{Kind: control.KindToken, ID: c.args[0], Base: control.Any}}
	if err := s.config.DB.Commit(c.r.Context(), change); err != nil {
		return err
	}
	return c.answer(http.StatusOK, revised{change.Revision})
}

// revised is the answer to what leaves nothing to show.
type revised struct {
	Revision int64 `json:"revision"`
}

// A newToken is what is asked for.
type newToken struct {
	ID          string    `json:"id"`
	Role        Role      `json:"role"`
	Namespaces  []string  `json:"namespaces"`
	Description string    `json:"description"`
	Expires     time.Time `json:"expires"`
	For         string    `json:"for"`
}

// createToken answers POST /v1/tokens.
func (s *Server) createToken(c *call) error {
	var asked newToken
	if err := c.readInto(&asked); err != nil {
		return err
	}
	if asked.ID == "" {
		asked.ID = strings.ToLower(rand.Text()[:12])
	}
	if errs := asked.validate(s.config.Now()); len(errs) > 0 {
		return invalid(errs, 0)
	}
	if !c.who.coversEach(asked.Namespaces) {
		return fail(http.StatusForbidden, "The token %s is not for all of the namespaces %s, so that it cannot make one that is.",
			c.who.ID, strings.Join(asked.Namespaces, ", "))
	}
	secret := newSecret()
	object, err := s.saveToken(c.r.Context(), c.change(systemNamespace, "tokens.create"), asked, secret)
	var taken *control.Conflict
	if errors.As(err, &taken) {
		return fail(http.StatusConflict, "There is a token %s already. Revoke it first, or choose another id.", asked.ID)
	} else if err != nil {
		return err
	}
	made, err := s.tokenOf(object)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/tokens/"+asked.ID)
	return c.answer(http.StatusCreated, struct {
		Token  Token  `json:"token"`
		Secret string `json:"secret"`
	}{made, tokenPrefix + asked.ID + "_" + secret})
}

// maxNamespaces is how many a token may name.
const maxNamespaces = 100

// validate says what is wrong with it, and puts it in order.
func (t *newToken) validate(now time.Time) []fieldError {
	var errs []fieldError
	if !isName(t.ID) || len(t.ID) > 64 || slices.Contains(ownIDs, t.ID) {
		errs = append(errs, fieldError{Path: "id", Value: rules.Quote(t.ID), Want: wantName + " and 64 here, and none of " + strings.Join(ownIDs, ", ")})
	}
	if !slices.Contains(Roles, t.Role) {
		errs = append(errs, fieldError{Path: "role", Value: rules.Quote(string(t.Role)), Want: "one of " + oneOf(Roles)})
	}
	if len(t.Namespaces) == 0 || len(t.Namespaces) > maxNamespaces {
		errs = append(errs, fieldError{Path: "namespaces", Want: `1 to 100 names of namespaces, or ["*"] for all`})
	}
	for i, n := range t.Namespaces {
		if n != wildcard && !isName(n) {
			errs = append(errs, fieldError{Path: "namespaces[" + strconv.Itoa(i) + "]", Value: rules.Quote(n), Want: wantName + `, or "*"`})
		}
	}
	slices.Sort(t.Namespaces)
	t.Namespaces = slices.Compact(t.Namespaces)
	if len(t.Description) > rules.MaxText {
		errs = append(errs, fieldError{Path: "description", Want: "at most 4096 bytes"})
	}
	var wrong *fieldError
	if t.Expires, wrong = expiry(t.Expires, t.For, now); wrong != nil {
		errs = append(errs, *wrong)
	}
	return errs
}

// expiry returns when something ends that has a time or a duration, the zero time if it has neither.
func expiry(at time.Time, after string, now time.Time) (time.Time, *fieldError) {
	switch {
	case after != "" && !at.IsZero():
		return at, &fieldError{Path: "for", Value: rules.Quote(after), Want: "either expires or for"}
	case after != "":
		d, err := rules.ParseDuration(after)
		if err != nil {
			_, want := rules.Explain(err)
			return at, &fieldError{Path: "for", Value: rules.Quote(after), Want: want}
		}
		at = now.Add(d)
	case at.IsZero():
		return at, nil
	}
	if !at.After(now) {
		return at, &fieldError{Path: "expires", Value: at.Format(time.RFC3339), Want: "a time to come"}
	}
	return at.UTC().Truncate(time.Second), nil
}

// saveToken keeps a token that is not there yet.
func (s *Server) saveToken(ctx context.Context, change *control.Change, t newToken, secret string) (*control.Object, error) {
	body, err := json.Marshal(storedToken{
		ID: t.ID, Role: t.Role, Namespaces: t.Namespaces, Description: t.Description, Expires: t.Expires, Hash: hashSecret(t.ID, secret),
	})
	if err != nil {
		return nil, err
	}
	change.Ops = []control.Op{{Kind: control.KindToken, ID: t.ID, Base: control.Absent, Body: body}}
	if err := s.config.DB.Commit(ctx, change); err != nil {
		return nil, err
	}
	return &control.Object{ID: t.ID, Body: body, Created: change.Time, By: change.Actor}, nil
}

// firstToken makes a token if nobody has one that may do everything, and tells it.
func (s *Server) firstToken(ctx context.Context) error {
	token, err := s.ensureAdmin(ctx)
	if token != "" {
		s.config.FirstToken(token)
	}
	return err
}

// ensureAdmin makes a token if nobody has one that may do everything, and returns it: it is empty if somebody has.
func (s *Server) ensureAdmin(ctx context.Context) (string, error) {
	if s.config.FirstToken == nil || s.config.AdminToken != "" {
		return "", nil
	}
	q := control.Query{Namespace: systemNamespace, Kind: control.KindToken, Limit: 1000}
	for {
		objects, err := s.config.DB.List(ctx, q)
		if err != nil {
			return "", err
		}
		for i := range objects {
			t, err := s.tokenOf(&objects[i])
			if err != nil {
				return "", err
			}
			if t.mayAll() {
				return "", nil
			}
		}
		if len(objects) < q.Limit {
			break
		}
		q.AfterNamespace, q.AfterID = systemNamespace, objects[len(objects)-1].ID
	}
	secret := newSecret()
	// One id whoever makes it: of several servers that start at once, one does.
	asked := newToken{ID: firstID, Role: Admin, Namespaces: []string{wildcard}, Description: "made at the first start"}
	change := &control.Change{Namespace: systemNamespace, Actor: systemActor, Action: "tokens.first", Base: control.Any}
	_, err := s.saveToken(ctx, change, asked, secret)
	if errors.Is(err, control.ErrConflict) {
		return "", s.firstTaken(ctx)
	} else if err != nil {
		return "", err
	}
	return tokenPrefix + asked.ID + "_" + secret, nil
}

// firstTaken says so if the first token's id is that of one that may not do everything, which was made before it was kept
// from others: nobody could do everything then.
func (s *Server) firstTaken(ctx context.Context) error {
	o, err := s.config.DB.Get(ctx, systemNamespace, control.KindToken, firstID)
	if errors.Is(err, control.ErrNotFound) {
		return nil // revoked meanwhile, by one who may
	} else if err != nil {
		return err
	}
	t, err := s.tokenOf(o)
	if err == nil && !t.mayAll() {
		s.config.Logger.Warn("rules service: no token may do everything, and the id of the first is taken: start with an admin token of a file, and revoke the other",
			"token", firstID)
	}
	return err
}

// mayAll reports whether a token may do everything, now.
func (t *Token) mayAll() bool {
	return t.Role == Admin && slices.Contains(t.Namespaces, wildcard) && !t.Expired
}

// systemActor is who makes changes that nobody has asked for.
const systemActor = "headgate"

// firstID is the id of the token that is made at the first start, adminID that of a token of a file.
const (
	firstID = "first-admin"
	adminID = "admin"
)

// ownIDs are ids that no caller can give a token: what the history says of these is the rules service's own.
var ownIDs = []string{adminID, firstID, systemActor}

// change begins a change that a call makes, with the note of the call.
func (c *call) change(namespace, action string) *control.Change {
	return &control.Change{
		Namespace: namespace, Actor: c.who.ID, From: c.from, Action: action, Note: c.query.Get("note"), Base: control.Any,
	}
}
