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
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
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

// covers tells whether a token is for a namespace.
func (p *principal) covers(namespace string) bool {
	return slices.Contains(p.Namespaces, wildcard) || slices.Contains(p.Namespaces, namespace)
}

func (p *principal) coversAll() bool { return slices.Contains(p.Namespaces, wildcard) }

// coversEach tells whether a token is for all that another is for.
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
		return nil, s.loginFailed(ctx, byGuess, from)
	}
	if id, secret, ok := splitToken(token); ok {
		// Nobody guesses 256 bits, so that this is asked even of an address that is denied: one who fails from there
		// locks out nobody else.
		who, err := s.lookUp(ctx, id, secret)
		if !errors.Is(err, errDenied) {
			return who, err
		}
		if _, _, may := splitToken(s.config.AdminToken); !may {
			return nil, s.loginFailed(ctx, byOldToken, from)
		}
	}
	if s.config.AdminToken == "" {
		return nil, s.loginFailed(ctx, byGuess, from)
	}
	// This one may be what someone has thought of: an address that is denied is not told whether it has guessed.
	if err := s.mayLogIn(ctx, byGuess, from); err != nil {
		return nil, err
	}
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.config.AdminToken))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return nil, s.loginFailed(ctx, byGuess, from)
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

// logins remembers who failed.
type logins struct {
	mu     sync.Mutex
	failed int64
	recent []failedLogin // the last of them, the latest last
}

// A failedLogin is one that failed.
type failedLogin struct {
	Time time.Time `json:"time"`
	From string    `json:"from"`
	// Denied tells that the address had failed too often to be listened to.
	Denied bool `json:"denied,omitempty"`
}

// maxRecentLogins is how many failed logins are shown.
const maxRecentLogins = 100

func (l *logins) add(f failedLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
	if l.recent = append(l.recent, f); len(l.recent) > maxRecentLogins {
		l.recent = slices.Delete(l.recent, 0, 1)
	}
}

// How a login failed, which are counted apart: by a token that may be a guess, or by one of a form that nobody guesses, and that was
// good once. A node that goes on with its old one locks out nobody on its host who knows the one of a file.
const (
	byGuess    = "login "
	byOldToken = "old login "
)

// loginKey is by what failed logins are counted: the address, of IPv6 the network that one customer has.
func loginKey(how string, from netip.Addr) string {
	if from.Is6() && !from.Is4In6() {
		if p, err := from.WithZone("").Prefix(64); err == nil {
			return how + p.String()
		}
	}
	return how + from.Unmap().String()
}

// loginFailed counts a login that failed, and returns what to answer.
func (s *Server) loginFailed(ctx context.Context, how string, from netip.Addr) error {
	d, err := s.config.Logins.Take(ctx, headgate.Check{Key: loginKey(how, from), Limit: s.config.LoginLimit, Cost: 1})
	if err != nil {
		return fmt.Errorf("count a failed login: %w", err)
	}
	s.logins.add(failedLogin{Time: s.config.Now().UTC(), From: from.String(), Denied: !d.Allowed})
	if !d.Allowed {
		return tooManyLogins(d.RetryAfter)
	}
	return errDenied
}

// mayLogIn tells whether an address has not failed too often.
func (s *Server) mayLogIn(ctx context.Context, how string, from netip.Addr) error {
	d, err := s.config.Logins.Take(ctx, headgate.Check{Key: loginKey(how, from), Limit: s.config.LoginLimit})
	if err != nil {
		return fmt.Errorf("look at failed logins: %w", err)
	}
	if d.Remaining < 1 {
		s.logins.add(failedLogin{Time: s.config.Now().UTC(), From: from.String(), Denied: true})
		return tooManyLogins(max(d.RetryAfter, d.ResetAfter/time.Duration(max(d.Limit, 1))))
	}
	return nil
}

func tooManyLogins(after time.Duration) error {
	p := fail(http.StatusTooManyRequests, "Too many logins from this address have failed.")
	p.retryAfter = max(after, time.Second)
	return p
}

// isName tells whether a text can be an id or a namespace, as those of rules.
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
