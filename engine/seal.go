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

// A sealer encrypts leases, so that others can neither read nor forge them.
type sealer struct {
	aead    cipher.AEAD
	second  cipher.AEAD // of Config.SecondSecret, or nil
	noncers sync.Pool   // of *noncer
}

// A noncer derives a nonce from a text.
type noncer struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// newSealer returns a sealer with the given secret. Without a secret it returns nil for a shared store, whose leases
// are then readable. For a store of one process it uses a random secret, because other processes cannot use its leases.
func newSealer(secret, second []byte, shared bool) (*sealer, error) {
	switch {
	case len(secret) > 0 && len(secret) < minSecret:
		return nil, fmt.Errorf("engine: Secret of %d bytes: want at least %d, better 32 random ones", len(secret), minSecret)
	case len(secret) == 0 && shared:
		return nil, nil
	case len(secret) == 0:
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	aead, nonceKey, err := deriveSealer(secret)
	if err != nil {
		return nil, fmt.Errorf("engine: Secret: %w", err)
	}
	s := &sealer{aead: aead}
	s.noncers.New = func() any { return &noncer{mac: hmac.New(sha256.New, nonceKey)} }
	if len(second) > 0 {
		if len(second) < minSecret {
			return nil, fmt.Errorf("engine: SecondSecret of %d bytes: want at least %d, or none", len(second), minSecret)
		}
		if s.second, _, err = deriveSealer(second); err != nil {
			return nil, fmt.Errorf("engine: SecondSecret: %w", err)
		}
	}
	return s, nil
}

// deriveSealer returns the cipher of a secret, and the key from which nonces are derived.
func deriveSealer(secret []byte) (aead cipher.AEAD, nonceKey []byte, err error) {
	keys, err := hkdf.Key(sha256.New, secret, nil, "headgate leases", 64)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(keys[:32])
	if err != nil {
		return nil, nil, err
	}
	aead, err = cipher.NewGCM(block)
	return aead, keys[32:], err
}

const minSecret = 16

// seal encrypts dst[from:] and authenticates dst[begin:from] with it. The nonce is a keyed hash of the text. Each text
// contains a random lease ID, so no two texts are equal, and any number of them can be encrypted with one key.
func (s *sealer) seal(dst []byte, begin, from int) []byte {
	n := s.noncers.Get().(*noncer)
	defer s.noncers.Put(n)
	n.mac.Reset()
	_, _ = n.mac.Write(dst[from:]) // never fails
	nonce := n.mac.Sum(n.sum[:0])[:s.aead.NonceSize()]
	dst = slices.Insert(dst, from, nonce...)
	at := from + len(nonce)
	return s.aead.Seal(dst[:at], nonce, dst[at:], dst[begin:from])
}

// open decrypts a text and checks that it was sealed together with begin.
func (s *sealer) open(begin, sealed []byte) ([]byte, bool) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, false
	}
	text, err := s.aead.Open(nil, sealed[:n], sealed[n:], begin)
	if err != nil && s.second != nil {
		text, err = s.second.Open(nil, sealed[:n], sealed[n:], begin)
	}
	return text, err == nil
}
