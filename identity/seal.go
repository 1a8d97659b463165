package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

// ErrSealed is returned for text that was sealed with another secret, or was changed.
var ErrSealed = errors.New("sealed with another secret")

// newSealer returns a cipher whose key is derived from the secret.
func newSealer(secret []byte) cipher.AEAD {
	h := hmac.New(sha256.New, secret)
	_, _ = h.Write([]byte("headgate seal")) // never fails
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return sealer
}

// Seal encrypts text for other processes with the same Config.Secret. It returns false without a Config.Secret.
func (id *Identifier) Seal(text []byte) (sealed []byte, ok bool) {
	if id.sealer == nil {
		return nil, false
	}
	return id.sealer.Seal(nil, nil, text, nil), true
}

// Unseal returns text that was sealed with the same secret. The error is ErrSealed.
func (id *Identifier) Unseal(sealed []byte) ([]byte, error) {
	if id.sealer == nil {
		return nil, ErrSealed
	}
	text, err := id.sealer.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}
