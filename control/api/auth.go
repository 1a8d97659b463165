package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/internal/logins"
	"github.com/headgate/headgate/rules"
)

// systemNamespace is where tokens are kept. No caller can name it.
const systemNamespace = "_system"

// wildcard is, among the namespaces of a token, all of them.
const wildcard = "*"

// minAdminToken is how long a token must be that someone has thought of.
const minAdminToken = 16

// A principal is who makes a call.
type principal struct {
	ID         string    `json:"id"`
	Role       Role      `json:"role"`
	Namespaces []string  `json:"namespaces"`
	Expires    time.Time `json:"expires,omitzero"`
}

// covers reports whether a token is for a namespace.
func (p *principal) covers(namespace string) bool {
	return slices.Contains(p.Namespaces, wildcard) || slices.Contains(p.Namespaces, namespace)
}

func (p *principal) coversAll() bool { return slices.Contains(p.Namespaces, wildcard) }

// coversEach reports whether a token is for all that another is for.
func (p *principal) coversEach(namespaces []string) bool {
	return !slices.ContainsFunc(namespaces, func(n string) bool { return !p.covers(n) && !p.coversAll() })
}

// A storedToken is a token as it is kept: its secret is not in it.
type storedToken struct {
	ID          string    `json:"id"`
	Role        Role      `json:"role"`
	Namespaces  []string  `json:"namespaces"`
	Description string    `json:"description,omitempty"`
	Expires     time.Time `json:"expires,omitzero"`
	Hash        string    `json:"hash,omitempty"`
}

// A token is "hg_" + its id + "_" + its secret, which has no '_'.
const tokenPrefix = "hg_"

// newSecret returns 256 bits by chance, in letters and digits.
func newSecret() string {
	var raw [32]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// hashSecret returns what is kept of a secret. It is keyed by the id, so that equal secrets would not show; a slow hash is
// for what people think of, not for 256 bits by chance.
func hashSecret(id, secret string) string {
	mac := hmac.New(sha256.New, []byte("headgate token "+id))
	mac.Write([]byte(secret))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

// splitToken returns the parts of a token.
func splitToken(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 || !isName(rest[:i]) || i == len(rest)-1 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// errDenied is for tokens that are not good. What is wrong with them is nobody's business.
var errDenied = errors.New("no such token")

// authenticate says who makes a call.
func (s *Server) authenticate(c *call) (*principal, error) {
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, fail(http.StatusUnauthorized, "Show a token: Authorization: Bearer TOKEN.")
	}
	who, err := s.identify(c.r.Context(), token, s.config.From(c.r))
	if !errors.Is(err, errDenied) {
		return who, err
	}
	return nil, fail(http.StatusUnauthorized, "The token is not good: there is none like it, it was revoked, or its time is over.")
}

// identify says whose a token is: errDenied for nobody's.
func (s *Server) identify(ctx context.Context, token string, from netip.Addr) (*principal, error) {
	if len(token) > 4096 {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	if id, secret, ok := splitToken(token); ok {
		// Nobody guesses 256 bits, so that this is asked even of an address that is denied: one who fails from there
		// locks out nobody else.
		who, err := s.lookUp(ctx, id, secret)
		if !errors.Is(err, errDenied) {
			return who, err
		}
		if _, _, may := splitToken(s.config.AdminToken); !may {
			return nil, s.loginFailed(ctx, logins.Revoked, from)
		}
	}
	if s.config.AdminToken == "" {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	// This one may be what someone has thought of: an address that is denied is not told whether it has guessed.
	if err := s.mayLogIn(ctx, logins.Guess, from); err != nil {
		return nil, err
	}
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.config.AdminToken))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return nil, s.loginFailed(ctx, logins.Guess, from)
	}
	return &principal{ID: adminID, Role: Admin, Namespaces: []string{wildcard}}, nil
}

// lookUp finds a token that is kept.
func (s *Server) lookUp(ctx context.Context, id, secret string) (*principal, error) {
	object, err := s.config.DB.Get(ctx, systemNamespace, control.KindToken, id)
	var stored storedToken
	switch {
	case errors.Is(err, control.ErrNotFound): // the same is done as for one that is there
	case err != nil:
		return nil, fmt.Errorf("look up a token: %w", err)
	default:
		if err := json.Unmarshal(object.Body, &stored); err != nil {
			return nil, fmt.Errorf("read token %s: %w", id, err)
		}
	}
	if subtle.ConstantTimeCompare([]byte(hashSecret(id, secret)), []byte(stored.Hash)) != 1 {
		return nil, errDenied
	}
	if !stored.Expires.IsZero() && !s.config.Now().Before(stored.Expires) {
		return nil, errDenied
	}
	return &principal{ID: stored.ID, Role: stored.Role, Namespaces: stored.Namespaces, Expires: stored.Expires}, nil
}

// listener is the name of the listener that the API is served on, in the log and the audit.
const listener = "admin"

// loginFailed counts a login that failed, and returns the error to answer with.
func (s *Server) loginFailed(ctx context.Context, kind logins.Kind, from netip.Addr) error {
	if retry := s.config.Logins.Failed(ctx, listener, kind, from); retry > 0 {
		return tooManyLogins(retry)
	}
	return errDenied
}

// mayLogIn returns an error for an address that has failed too often.
func (s *Server) mayLogIn(ctx context.Context, kind logins.Kind, from netip.Addr) error {
	if retry := s.config.Logins.Denied(ctx, listener, kind, from); retry > 0 {
		return tooManyLogins(retry)
	}
	return nil
}

func tooManyLogins(after time.Duration) error {
	p := fail(http.StatusTooManyRequests, "Too many logins from this address have failed.")
	p.retryAfter = after
	return p
}

// isName reports whether a text can be an id or a namespace, as those of rules.
func isName(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || strings.IndexByte("-_.", c) < 0) {
			return false
		}
	}
	return true
}

// CheckName says what is wrong with the name of a namespace or a node that calls are to name, nil if nothing is.
func CheckName(name string) error {
	if !isName(name) {
		return fmt.Errorf("%s: want %s", rules.Quote(name), wantName)
	}
	return nil
}

const wantName = "letters, digits, '-', '_' and '.', beginning with a letter or a digit, at most 128 bytes"
