package identity

import (
	"bytes"
	"errors"
	"testing"
)

func TestOnlyTheSecretUnseals(t *testing.T) {
	id, same, other := newID(t, Config{}), newID(t, Config{}), newID(t, Config{Secret: []byte("another secret of some length")})
	sealed, ok := id.Seal([]byte("k-secret"))
	if !ok || bytes.Contains(sealed, []byte("k-secret")) {
		t.Fatalf("Seal = %q, %v, want it sealed", sealed, ok)
	}
	if got, err := same.Unseal(sealed); err != nil || string(got) != "k-secret" {
		t.Errorf("Unseal = %q, %v, want the text", got, err)
	}
	for name, id := range map[string]*Identifier{"another secret": other} {
		if got, err := id.Unseal(sealed); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: Unseal = %q, %v, want ErrSealed", name, got, err)
		}
	}
	sealed[len(sealed)-1] ^= 1
	if got, err := same.Unseal(sealed); !errors.Is(err, ErrSealed) {
		t.Errorf("changed: Unseal = %q, %v, want ErrSealed", got, err)
	}
	if got, err := same.Unseal(nil); !errors.Is(err, ErrSealed) {
		t.Errorf("empty: Unseal = %q, %v, want ErrSealed", got, err)
	}
	random, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := random.Seal([]byte("x")); ok {
		t.Error("Seal is ok without a secret that others have")
	}
}
