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
	aead       cipher.AEAD
	secondAEAD cipher.AEAD // of Config.SecondSecret, or nil
	macs       sync.Pool   // of *nonceMAC
}

// A nonceMAC derives a nonce from a text.
type nonceMAC struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// newSealer returns a sealer with the given secrets. Without a secret, it uses a random one if the store is not shared,
// because no other process needs to read its leases. For a shared store it then returns nil: leases are not encrypted.
func newSealer(secret, second []byte, shared bool) (*sealer, error) {
	switch {
	case len(secret) > 0 && len(secret) < minSecret:
		return nil, fmt.Errorf("engine: Secret has %d bytes: use at least %d, better 32 random bytes", len(secret), minSecret)
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
	s.macs.New = func() any { return &nonceMAC{mac: hmac.New(sha256.New, nonceKey)} }
	if len(second) > 0 {
		if len(second) < minSecret {
			return nil, fmt.Errorf("engine: SecondSecret has %d bytes: use at least %d, or none", len(second), minSecret)
		}
		if s.secondAEAD, _, err = deriveSealer(second); err != nil {
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

// minSecret is the minimum length of a secret in bytes.
const minSecret = 16

// seal replaces the text dst[from:] by a nonce and the encrypted text. It also authenticates dst[prefix:from], which is
// not encrypted. The nonce is a keyed hash of the text. Each text contains a random lease ID, so nonces do not repeat,
// and any number of texts can be encrypted with one key.
func (s *sealer) seal(dst []byte, prefix, from int) []byte {
	m := s.macs.Get().(*nonceMAC)
	defer s.macs.Put(m)
	m.mac.Reset()
	_, _ = m.mac.Write(dst[from:]) // never fails
	nonce := m.mac.Sum(m.sum[:0])[:s.aead.NonceSize()]
	dst = slices.Insert(dst, from, nonce...)
	textStart := from + len(nonce)
	return s.aead.Seal(dst[:textStart], nonce, dst[textStart:], dst[prefix:from])
}

// open decrypts the nonce and text that seal has written after prefix. It returns false if the text or the prefix was
// changed, or if it was encrypted with neither of the secrets.
func (s *sealer) open(prefix, sealed []byte) ([]byte, bool) {
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, false
	}
	text, err := s.aead.Open(nil, sealed[:n], sealed[n:], prefix)
	if err != nil && s.secondAEAD != nil {
		text, err = s.secondAEAD.Open(nil, sealed[:n], sealed[n:], prefix)
	}
	return text, err == nil
}
