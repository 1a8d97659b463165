package service

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/headgate/headgate/internal/secretfile"
)

// The bounds of a token, in bytes.
const (
	MinToken = 16
	MaxToken = 4096
)

// ErrToken is wrapped by errors about invalid tokens.
var ErrToken = errors.New("service: invalid token")

// A Token is the secret that callers of the decision service must show. A nil Token accepts every caller. It is safe
// for concurrent use.
type Token struct {
	sum     [sha256.Size]byte // the token itself is not kept
	warning string
}

// NewToken returns a token of one line of at least MinToken visible ASCII characters. Surrounding white space is
// ignored.
func NewToken(text string) (*Token, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < MinToken:
		return nil, fmt.Errorf("%w: %d characters are too few: want one line of at least %d, better 32 random ones",
			ErrToken, len(text), MinToken)
	case len(text) > MaxToken:
		return nil, fmt.Errorf("%w: more than %d characters: want one line", ErrToken, MaxToken)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f {
			return nil, fmt.Errorf(
				"%w: character %d cannot be sent in a header: want one line of ASCII letters, digits and punctuation",
				ErrToken, i+1)
		}
	}
	return &Token{sum: sha256.Sum256([]byte(text))}, nil
}

// ReadToken reads a token from a file.
func ReadToken(path string) (*Token, error) {
	data, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	t, err := NewToken(string(bytes.TrimSpace(data)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		t.warning = fmt.Sprintf("%s can be read by everybody (%v): want 0600", path, info.Mode().Perm())
	}
	return t, nil
}

// Warning returns a problem with the token's file permissions, for the log, or "".
func (t *Token) Warning() string {
	if t == nil {
		return ""
	}
	return t.warning
}

// Is reports whether this is the token, in constant time.
func (t *Token) Is(presented string) bool {
	if t == nil {
		return true
	}
	if len(presented) > MaxToken {
		return false
	}
	var buffer [256]byte // keeps the copy on the stack
	sum := sha256.Sum256(append(buffer[:0], presented...))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// scheme is the authentication scheme of the Authorization header.
const scheme = "Bearer"
