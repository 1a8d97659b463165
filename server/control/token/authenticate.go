package token

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/internal/logins"
)

// ErrInvalid means that a token does not exist, was revoked, or has expired. It does not reveal which.
var ErrInvalid = errors.New("no such token")

// A ThrottledError means that too many logins from an address have failed.
type ThrottledError struct{ RetryAfter time.Duration }

func (e *ThrottledError) Error() string { return "too many failed logins" }

// maxToken is the maximum length of a token in bytes.
const maxToken = 4096

// listener is the name of the rules service's listener in the log and the audit log.
const listener = "admin"

// Authenticate returns the principal of a token that was sent from an address. The error is ErrInvalid, a
// *ThrottledError, or an error of the database.
func (s *Store) Authenticate(ctx context.Context, token string, from netip.Addr) (*Principal, error) {
	if len(token) > maxToken {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	if id, key, ok := split(token); ok {
		// Nobody can guess 256 bits, so valid tokens are accepted even from a throttled address.
		p, err := s.lookUp(ctx, id, key)
		if !errors.Is(err, ErrInvalid) {
			return p, err
		}
		// It cannot be the admin token, unless that has the format of stored tokens, too.
		if _, _, sameFormat := split(s.options.AdminToken); !sameFormat {
			return nil, s.loginFailed(ctx, logins.Revoked, from)
		}
	}
	if s.options.AdminToken == "" {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	// The admin token may be a weak password, so a throttled address must not learn whether its guess was right.
	if retry := s.options.Logins.Denied(ctx, listener, logins.Guess, from); retry > 0 {
		return nil, &ThrottledError{retry}
	}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.options.AdminToken))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	return &Principal{ID: adminID, Role: Admin, Namespaces: []string{AllNamespaces}}, nil
}

// FromRequest returns the token of a request, empty if it has none.
func FromRequest(r *http.Request) string {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// lookUp returns the principal of a stored token.
func (s *Store) lookUp(ctx context.Context, id, key string) (*Principal, error) {
	if s.options.DB == nil {
		return nil, ErrInvalid
	}
	var r record
	object, err := s.options.DB.Get(ctx, control.SystemNamespace, control.KindToken, id)
	switch {
	case errors.Is(err, control.ErrNotFound):
		// Continue with an empty record, so that most of the work is the same as for a token that exists.
	case err != nil:
		return nil, fmt.Errorf("look up a token: %w", err)
	default:
		if r, err = parseRecord(object); err != nil {
			return nil, err
		}
	}
	if subtle.ConstantTimeCompare([]byte(hash(id, key)), []byte(r.Hash)) != 1 || r.expired(s.options.Now()) {
		return nil, ErrInvalid
	}
	return &r.Principal, nil
}

// loginFailed counts a failed login. It returns ErrInvalid, or a *ThrottledError if there are too many.
func (s *Store) loginFailed(ctx context.Context, kind logins.Kind, from netip.Addr) error {
	if retry := s.options.Logins.Failed(ctx, listener, kind, from); retry > 0 {
		return &ThrottledError{retry}
	}
	return ErrInvalid
}
