package jwt

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/headgate/headgate/identity"
)

// A Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	config    Config
	source    *source // nil if the keys never change
	fixedKeys *keySet // the keys if source is nil
	cache     tokenCache
	closeOnce sync.Once
	stop      context.CancelFunc // of source
	done      chan struct{}      // closed when source has stopped
}

var _ identity.TokenVerifier = (*Verifier)(nil)

// New returns a Verifier. With a JWKSURL it starts to fetch the keys and does not wait for them. With a JWKSFile it
// returns an error if the file cannot be read. Close ends the goroutine of the Verifier.
func New(config Config) (*Verifier, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	v := &Verifier{config: config, stop: func() {}, done: make(chan struct{})}
	v.config.Algorithms = slices.Clone(config.Algorithms)
	v.config.Audience = slices.Clone(config.Audience)
	v.config.Secret = nil // only fixedKeys keeps the secret
	switch {
	case config.Unverified:
		v.fixedKeys = &keySet{}
		close(v.done)
	case len(config.Secret) > 0:
		v.fixedKeys = &keySet{keys: []key{{value: slices.Clone(config.Secret)}}}
		close(v.done)
	default:
		v.source = newSource(&v.config)
		if config.JWKSFile != "" {
			if err := v.source.load(context.Background()); err != nil {
				return nil, fmt.Errorf("jwt: %w", err)
			}
		}
		ctx, stop := context.WithCancel(context.Background())
		v.stop = stop
		go func() {
			defer close(v.done)
			v.source.run(ctx)
		}()
	}
	return v, nil
}

// Close stops reading keys. The known keys stay in use.
func (v *Verifier) Close() {
	v.closeOnce.Do(v.stop)
	<-v.done
}

// Wait waits until the first keys have been read. If ctx ends first, Wait returns the error of the last attempt to read
// keys, or the error of ctx if no attempt has failed.
func (v *Verifier) Wait(ctx context.Context) error {
	if v.source == nil {
		return nil
	}
	return v.source.wait(ctx)
}

// Err returns the error of the latest attempt to read keys, or nil if that attempt succeeded. After an error, earlier
// keys may still be in use.
func (v *Verifier) Err() error {
	if v.source == nil {
		return nil
	}
	return v.source.lastErr()
}

// Verify returns the claims of a valid token. Otherwise the error wraps one of the errors of this package, such as
// ErrExpired.
func (v *Verifier) Verify(text string) (identity.Claims, error) {
	if len(text) > v.config.MaxToken {
		return nil, errTooLong
	}
	now := v.config.Now()
	keys := v.fixedKeys
	if v.source != nil {
		if keys = v.source.keys(now); keys == nil {
			return nil, ErrNoKeys
		}
	}
	sum := sumOf(text)
	if cached := v.cache.get(sum, keys); cached != nil {
		if err := v.checkTime(now.UnixMilli(), cached.from, cached.until); err != nil {
			return nil, err
		}
		return cached.claims, nil
	}
	t, err := parse(text)
	if err != nil {
		return nil, err
	}
	if !v.config.Unverified {
		if err := v.checkSignature(t, keys); err != nil {
			return nil, err
		}
	}
	from, until, err := t.period()
	if err != nil {
		return nil, err
	}
	if err := v.checkClaims(t, until); err != nil {
		return nil, err
	}
	if err := v.checkTime(now.UnixMilli(), from, until); err != nil {
		return nil, err
	}
	accepted := &claims{payload: t.payload, verified: !v.config.Unverified}
	v.cache.put(&cachedToken{sum: sum, keys: keys, claims: accepted, from: from, until: until})
	return accepted, nil
}

var errTooLong = fmt.Errorf("%w: longer than MaxToken", ErrMalformed)

func (v *Verifier) checkSignature(t *token, keys *keySet) error {
	a, ok := algorithms[t.alg]
	if !ok || !slices.Contains(v.config.Algorithms, t.alg) {
		return fmt.Errorf("%w: %s", ErrAlgorithm, quoteShort(t.alg))
	}
	candidates := keys.candidates(t.kid, t.alg, a)
	if len(candidates) == 0 {
		if v.source != nil {
			v.source.refresh() // the key may be new
		}
		return fmt.Errorf("%w: %s", ErrKey, quoteShort(t.kid))
	}
	text := []byte(t.signed)
	for _, k := range candidates {
		if a.verify(k.value, text, t.signature) {
			return nil
		}
	}
	return ErrSignature
}

func (v *Verifier) checkClaims(t *token, until int64) error {
	if iss, _ := t.payload["iss"].(string); v.config.Issuer != "" && iss != v.config.Issuer {
		return fmt.Errorf("%w: %s", ErrIssuer, quoteShort(iss))
	}
	if len(v.config.Audience) > 0 && !slices.ContainsFunc(t.audience(), func(aud string) bool {
		return slices.Contains(v.config.Audience, aud)
	}) {
		return ErrAudience
	}
	if until == noExpiry && !v.config.NoExpiry {
		return fmt.Errorf("%w: claims: no exp", ErrMalformed)
	}
	return nil
}

// checkTime returns an error if a token is not valid now. Times are in milliseconds since 1970.
func (v *Verifier) checkTime(now, from, until int64) error {
	leeway := v.config.Leeway.Milliseconds()
	switch {
	case until != noExpiry && now >= until+leeway:
		return ErrExpired
	case from != noNotBefore && now < from-leeway:
		return ErrNotYet
	default:
		return nil
	}
}

// quoteShort quotes a value of a token for an error message, and shortens a long one.
func quoteShort(s string) string {
	const maxShown = 32
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}
