package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// SignatureHeader is the header of a webhook that says by whom it was sent, and when.
const SignatureHeader = "Headgate-Signature"

// HookWindow is how far the time of a webhook may be from that of who takes it.
const HookWindow = 5 * time.Minute

// What is wrong with a webhook.
var (
	// ErrSignature is for one that was not signed with the secret.
	ErrSignature = errors.New("the signature is not right")
	// ErrHookTime is for one of another time than now.
	ErrHookTime = errors.New("it was signed too long ago, or the clocks differ")
	// ErrReplayed is for one that was taken before.
	ErrReplayed = errors.New("it was taken before")
)

// A Hook is what a webhook says.
type Hook struct {
	Event     string    `json:"event"` // "revision"
	Namespace string    `json:"namespace"`
	Revision  int64     `json:"revision"`
	Time      time.Time `json:"time"` // of the change
	// Delivery names it. One that is sent again has the same.
	Delivery string `json:"delivery"`
}

// Sign returns the value of SignatureHeader for a body that is sent now: "t=UNIX,v1=HEX", where HEX is the HMAC-SHA256 of
// UNIX, a dot and the body.
func Sign(secret, body []byte, now time.Time) string {
	stamp := strconv.FormatInt(now.Unix(), 10)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(signature(secret, stamp, body))
}

func signature(secret []byte, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

// VerifyHook says whether a body was signed with a secret, at most HookWindow from now: ErrSignature or ErrHookTime if not.
// It does not know whether it was taken before: a Receiver does.
func VerifyHook(secret []byte, header string, body []byte, now time.Time) error {
	_, err := verify(secret, header, body, now)
	return err
}

// verify returns the signature that is right.
func verify(secret []byte, header string, body []byte, now time.Time) (string, error) {
	if len(secret) == 0 {
		return "", ErrSignature
	}
	var stamp string
	var given []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			stamp = value
		case "v1":
			given = append(given, value)
		}
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || len(given) == 0 || len(given) > 8 {
		return "", ErrSignature
	}
	want := signature(secret, stamp, body)
	for _, text := range given {
		got, err := hex.DecodeString(text)
		if err != nil || !hmac.Equal(got, want) {
			continue
		}
		if apart := now.Sub(time.Unix(at, 0)); apart > HookWindow || apart < -HookWindow {
			return "", ErrHookTime
		}
		return string(want), nil
	}
	return "", ErrSignature
}

// A Receiver takes webhooks: it is the handler of POST /v1/hooks/rules. It is safe for concurrent use.
type Receiver struct {
	secret []byte
	take   func(context.Context, Hook)
	now    func() time.Time
	seen   memory
}

var _ http.Handler = (*Receiver)(nil)

// A memory knows which signatures were taken, until they are too old to be taken.
type memory struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// maxSeen is how many are remembered. Only who knows the secret can make it remember any.
const maxSeen = 100_000

// note remembers a signature: ErrReplayed if it was taken before.
func (m *memory) note(sum string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until, ok := m.seen[sum]; ok && now.Before(until) {
		return ErrReplayed
	}
	if m.seen == nil {
		m.seen = make(map[string]time.Time)
	}
	if len(m.seen) >= maxSeen {
		for old, until := range m.seen {
			if !now.Before(until) {
				delete(m.seen, old)
			}
		}
		if len(m.seen) >= maxSeen {
			return fmt.Errorf("more than %d signatures in %v", maxSeen, 2*HookWindow)
		}
	}
	m.seen[sum] = now.Add(2*HookWindow + time.Minute)
	return nil
}

// NewReceiver returns a receiver that calls take for each webhook that was signed with the secret and was not taken before.
// It answers 202 when take returns, which should be soon.
func NewReceiver(secret []byte, take func(context.Context, Hook)) (*Receiver, error) {
	if len(secret) < minHookSecret {
		return nil, fmt.Errorf("api: a secret of %d bytes for webhooks: want at least %d", len(secret), minHookSecret)
	}
	return &Receiver{secret: secret, take: take, now: time.Now}, nil
}

// maxHookBody is how long the body of a webhook may be.
const maxHookBody = 64 << 10

func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxHookBody))
	if err != nil {
		fail(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes, or did not arrive.", maxHookBody).answer(w)
		return
	}
	hook, err := r.read(q.Header.Get(SignatureHeader), body)
	switch {
	case errors.Is(err, ErrReplayed):
		fail(http.StatusConflict, "The webhook is refused: %v.", err).answer(w)
	case errors.Is(err, ErrSignature), errors.Is(err, ErrHookTime):
		fail(http.StatusUnauthorized, "The webhook is refused: %v.", err).answer(w)
	case err != nil:
		fail(http.StatusBadRequest, "The webhook cannot be read: %v.", err).answer(w)
	default:
		r.take(q.Context(), hook)
		w.WriteHeader(http.StatusAccepted)
	}
}

// read verifies a webhook and remembers it.
func (r *Receiver) read(header string, body []byte) (Hook, error) {
	now := r.now()
	sum, err := verify(r.secret, header, body, now)
	if err != nil {
		return Hook{}, err
	}
	var hook Hook
	if err := json.Unmarshal(body, &hook); err != nil {
		return Hook{}, err
	}
	return hook, r.seen.note(sum, now)
}

// takeHook answers POST /v1/hooks/rules.
func (s *Server) takeHook(c *call) error {
	if s.config.Hook == nil {
		return fail(http.StatusNotFound, "This is no node that takes webhooks.")
	}
	s.config.Hook.ServeHTTP(c.w, c.r)
	return nil
}
