package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"sync"
)

// A sealer makes leases that nobody else can read or make.
type sealer struct {
	aead   cipher.AEAD
	noncer sync.Pool // of *noncer
}

// A noncer makes a nonce of a text.
type noncer struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// newSealer returns a sealer with a secret, nil for none: then leases can be read.
//
// Without a secret, a store that hosts do not share needs none from outside: its leases are of no use to another process.
func newSealer(secret []byte, shared bool) (*sealer, error) {
	switch {
	case len(secret) > 0 && len(secret) < minSecret:
		return nil, fmt.Errorf("engine: Secret of %d bytes: want at least %d, better 32 by chance", len(secret), minSecret)
	case len(secret) == 0 && shared:
		return nil, nil
	case len(secret) == 0:
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	keys, err := hkdf.Key(sha256.New, secret, nil, "headgate leases", 64)
	if err != nil {
		return nil, fmt.Errorf("engine: Secret: %w", err)
	}
	block, err := aes.NewCipher(keys[:32])
	if err != nil {
		return nil, fmt.Errorf("engine: Secret: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("engine: Secret: %w", err)
	}
	s := &sealer{aead: aead}
	s.noncer.New = func() any { return &noncer{mac: hmac.New(sha256.New, keys[32:])} }
	return s, nil
}

const minSecret = 16

// seal seals what dst holds from a place on. The nonce is a hash of it. No two texts are the same, as each has a name in it that
// was made by chance, so there is no bound on how many can be sealed.
func (s *sealer) seal(dst []byte, begin, from int) []byte {
	n := s.noncer.Get().(*noncer)
	defer s.noncer.Put(n)
	n.mac.Reset()
	_, _ = n.mac.Write(dst[from:]) // never fails
	nonce := n.mac.Sum(n.sum[:0])[:s.aead.NonceSize()]
	dst = slices.Insert(dst, from, nonce...)
	at := from + len(nonce)
	return s.aead.Seal(dst[:at], nonce, dst[at:], dst[begin:from])
}

// open returns what was sealed behind a beginning.
func (s *sealer) open(begin, sealed []byte) ([]byte, bool) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, false
	}
	text, err := s.aead.Open(nil, sealed[:n], sealed[n:], begin)
	return text, err == nil
}
