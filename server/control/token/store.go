package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/secret"
	"github.com/headgate/headgate/server/internal/logins"
)

// IDs of tokens of the rules service itself.
const (
	adminID = "admin"       // Options.AdminToken, which is read from a file
	firstID = "first-admin" // the token that EnsureAdmin creates at the first start
)

// reservedIDs are IDs that callers cannot give to tokens, because in the history they stand for the rules service.
var reservedIDs = []string{adminID, firstID, control.SystemActor}

// minAdminToken is the minimum length of an admin token that was read from a file.
const minAdminToken = 16

// Options configure a Store.
type Options struct {
	// DB stores the tokens. If it is nil, only AdminToken is valid, and only Authenticate may be called.
	DB control.DB
	// Logins counts failed logins by address.
	Logins *logins.Throttle
	// AdminToken is the secret of a token with all rights. It is not stored. Default none.
	AdminToken string
	Now        func() time.Time
	Logger     *slog.Logger
}

// A Store stores tokens in the database. It is safe for concurrent use.
type Store struct{ options Options }

// NewStore returns a Store.
func NewStore(o Options) (*Store, error) {
	if o.AdminToken != "" && len(o.AdminToken) < minAdminToken {
		return nil, fmt.Errorf("AdminToken: %d bytes are too few: want at least %d, better 32 random characters",
			len(o.AdminToken), minAdminToken)
	}
	return &Store{o}, nil
}

func (s *Store) parse(o *control.Object) (Token, error) {
	r, err := parseRecord(o)
	return Token{
		Principal: r.Principal, Description: r.Description, Expired: r.expired(s.options.Now()),
		Created: o.Created, By: o.By,
	}, err
}

// List returns tokens that are valid only for namespaces of a principal: the first limit ones after an ID. more reports
// whether there are others.
func (s *Store) List(ctx context.Context, p *Principal, after string, limit int) (list []Token, more bool, err error) {
	list = []Token{}
	for t, err := range s.all(ctx, after, limit+1) {
		switch {
		case err != nil:
			return nil, false, err
		case !p.CoversEach(t.Namespaces):
		case len(list) == limit:
			return list, true, nil
		default:
			list = append(list, t)
		}
	}
	return list, false, nil
}

// all returns the tokens after an ID.
func (s *Store) all(ctx context.Context, after string, pageSize int) iter.Seq2[Token, error] {
	q := control.Query{Namespace: control.SystemNamespace, Kind: control.KindToken, Limit: pageSize}
	if after != "" {
		q.AfterNamespace, q.AfterID = control.SystemNamespace, after
	}
	return func(yield func(Token, error) bool) {
		for o, err := range control.All(ctx, s.options.DB, q) {
			var t Token
			if err == nil {
				t, err = s.parse(o)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// Get returns a token that is valid only for namespaces of a principal, or control.ErrNotFound.
func (s *Store) Get(ctx context.Context, p *Principal, id string) (Token, error) {
	if !control.IsName(id) {
		return Token{}, control.ErrNotFound
	}
	o, err := s.options.DB.Get(ctx, control.SystemNamespace, control.KindToken, id)
	if err != nil {
		return Token{}, err
	}
	t, err := s.parse(o)
	if err == nil && !p.CoversEach(t.Namespaces) {
		err = control.ErrNotFound
	}
	return t, err
}

// Revoke sets the operations of the change to delete a token, and commits the change.
func (s *Store) Revoke(ctx context.Context, change *control.Change, id string) error {
	change.Ops = []control.Op{{Kind: control.KindToken, ID: id, Base: control.AnyRevision}}
	return s.options.DB.Commit(ctx, change)
}

// Create sets the operations of the change to store a token, and commits the change. It returns the token and its
// secret. The draft must be valid. The error is a *control.Conflict if the ID exists.
func (s *Store) Create(ctx context.Context, change *control.Change, d Draft) (Token, string, error) {
	key := secret.New()
	body, err := json.Marshal(record{
		Principal{ID: d.ID, Role: d.Role, Namespaces: d.Namespaces, Expires: d.Expires}, d.Description, hash(d.ID, key),
	})
	if err != nil {
		return Token{}, "", err
	}
	change.Ops = []control.Op{{Kind: control.KindToken, ID: d.ID, Base: control.Absent, Body: body}}
	if err := s.options.DB.Commit(ctx, change); err != nil {
		return Token{}, "", err
	}
	t, err := s.parse(&control.Object{ID: d.ID, Body: body, Created: change.Time, By: change.Actor})
	return t, join(d.ID, key), err
}

// EnsureAdmin creates a token with all rights if there is none, and returns its secret. Otherwise it returns "".
func (s *Store) EnsureAdmin(ctx context.Context) (string, error) {
	if s.options.AdminToken != "" {
		return "", nil
	}
	for t, err := range s.all(ctx, "", 1000) {
		if err != nil || t.isSuperuser() {
			return "", err
		}
	}
	// The ID is constant, so that only one of several processes that start together can create the token.
	change := &control.Change{
		Namespace: control.SystemNamespace, Actor: control.SystemActor, Action: "tokens.first", Base: control.AnyRevision,
	}
	_, key, err := s.Create(ctx, change, Draft{
		ID: firstID, Role: Admin, Namespaces: []string{AllNamespaces}, Description: "created at the first start",
	})
	if errors.Is(err, control.ErrConflict) {
		return "", s.checkFirst(ctx)
	}
	return key, err
}

// checkFirst logs a warning if the token with firstID does not have all rights. Callers of older versions, in which the
// ID was not reserved, may have created such a token.
func (s *Store) checkFirst(ctx context.Context) error {
	o, err := s.options.DB.Get(ctx, control.SystemNamespace, control.KindToken, firstID)
	if errors.Is(err, control.ErrNotFound) {
		return nil // the token has just been revoked, so another token has the rights of an admin
	} else if err != nil {
		return err
	}
	t, err := s.parse(o)
	if err == nil && !t.isSuperuser() {
		s.options.Logger.Warn("rules service: no token has all rights, and the id of the first admin token is in use: "+
			"start with an admin token from a file, and revoke the token", "token", firstID)
	}
	return err
}
