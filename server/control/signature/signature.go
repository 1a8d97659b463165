// Package signature signs and verifies HTTP requests with a shared secret: webhooks, and requests of the rules service
// to nodes.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Header is the HTTP header with the signature of a request's body.
const Header = "Headgate-Signature"

// Window is the maximum difference between the time of a signature and the receiver's clock.
const Window = 5 * time.Minute

// Reasons to refuse a signature.
var (
	// ErrInvalid means that the body was not signed with the secret.
	ErrInvalid = errors.New("the signature is invalid")
	// ErrTime means that the time of the signature is outside the Window.
	ErrTime = errors.New("it was signed too long ago, or the clocks differ")
	// ErrReplayed means that the same signature was received before.
	ErrReplayed = errors.New("it was received before")
)

// Sign returns the value of Header for a body that is sent now: "t=UNIX,v1=HEX", where HEX is the HMAC-SHA256 of UNIX,
// a dot and the body.
func Sign(secret, body []byte, now time.Time) string {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	return "t=" + timestamp + ",v1=" + hex.EncodeToString(mac(secret, timestamp, body))
}

func mac(secret []byte, timestamp string, body []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(timestamp))
	m.Write([]byte{'.'})
	m.Write(body)
	return m.Sum(nil)
}

// Verify returns nil if the body was signed with the secret within the Window, otherwise ErrInvalid or ErrTime. It does
// not detect replays. Use a Verifier to refuse them.
func Verify(secret []byte, header string, body []byte, now time.Time) error {
	_, err := verify(secret, header, body, now)
	return err
}

// verify returns the body's MAC if the header is valid.
func verify(secret []byte, header string, body []byte, now time.Time) (string, error) {
	if len(secret) == 0 {
		return "", ErrInvalid
	}
	var timestamp string
	var macs []string
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "t":
			timestamp = value
		case "v1":
			macs = append(macs, value)
		}
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(macs) == 0 || len(macs) > 8 { // bound the work for one request
		return "", ErrInvalid
	}
	want := mac(secret, timestamp, body)
	for _, text := range macs {
		got, err := hex.DecodeString(text)
		if err != nil || !hmac.Equal(got, want) {
			continue
		}
		if age := now.Sub(time.Unix(seconds, 0)); age > Window || age < -Window {
			return "", ErrTime
		}
		return string(want), nil
	}
	return "", ErrInvalid
}

// A Verifier verifies signatures of one secret, and accepts each only once. It is safe for concurrent use.
type Verifier struct {
	secret []byte

	mu       sync.Mutex
	received map[string]time.Time // by MAC, the time when it can be forgotten
}

// NewVerifier returns a Verifier of signatures with a secret.
func NewVerifier(secret []byte) *Verifier {
	return &Verifier{secret: secret, received: make(map[string]time.Time)}
}

// maxReceived is the maximum number of remembered signatures. Only senders that know the secret can add any.
const maxReceived = 100_000

// Verify returns nil for a valid signature that was not received before, otherwise ErrInvalid, ErrTime or ErrReplayed.
// It returns another error if there are too many signatures to remember.
func (v *Verifier) Verify(header string, body []byte, now time.Time) error {
	sum, err := verify(v.secret, header, body, now)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if until, ok := v.received[sum]; ok && now.Before(until) {
		return ErrReplayed
	}
	if len(v.received) >= maxReceived {
		for old, until := range v.received {
			if !now.Before(until) {
				delete(v.received, old)
			}
		}
		if len(v.received) >= maxReceived {
			return fmt.Errorf("more than %d signatures in %v", maxReceived, 2*Window)
		}
	}
	v.received[sum] = now.Add(2*Window + time.Minute) // longer than the signature can be valid
	return nil
}
