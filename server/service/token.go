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

// The minimum and maximum length of a token, in bytes.
const (
	MinToken = 16
	MaxToken = 4096
)

// ErrToken is wrapped by all errors about an invalid token that NewToken and ReadToken return.
var ErrToken = errors.New("service: invalid token")

// A Token is the secret that callers of the decision service must send. A nil Token accepts every caller. It is safe
// for concurrent use.
type Token struct {
	hash    [sha256.Size]byte // only the hash is stored, not the token itself
	warning string
}

// NewToken returns the token in text, which must be one line of MinToken to MaxToken visible ASCII characters.
// Surrounding white space is ignored.
func NewToken(text string) (*Token, error) {
	text = strings.TrimSpace(text)
	switch {
	case len(text) < MinToken:
		return nil, fmt.Errorf("%w: %d characters are too few: want one line of at least %d, preferably 32 random ones",
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
	return &Token{hash: sha256.Sum256([]byte(text))}, nil
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
		t.warning = fmt.Sprintf("%s can be read by everybody (%v): set its mode to 0600", path, info.Mode().Perm())
	}
	return t, nil
}

// Warning returns a warning about the permissions of the token's file, or "".
func (t *Token) Warning() string {
	if t == nil {
		return ""
	}
	return t.warning
}

// Is reports whether presented is the token. A caller cannot guess the token from the time of the comparison.
func (t *Token) Is(presented string) bool {
	if t == nil {
		return true
	}
	if len(presented) > MaxToken {
		return false
	}
	var buffer [256]byte // keeps the copy on the stack
	hash := sha256.Sum256(append(buffer[:0], presented...))
	return subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1
}
