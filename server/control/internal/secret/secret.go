// Package secret generates random secrets and IDs.
package secret

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// New returns a random secret of 256 bits, in hexadecimal digits.
func New() string {
	var raw [32]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// NewID returns a random ID of 12 lowercase letters and digits.
func NewID() string { return strings.ToLower(rand.Text()[:12]) }
