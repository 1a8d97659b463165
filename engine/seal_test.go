package engine

import "testing"

func TestLeasesOfBothSecretsAreOpened(t *testing.T) {
	oldSecret, newSecret := []byte("the secret until now"), []byte("the secret from now on")
	open := func(secret, second []byte, sealed []byte) bool {
		t.Helper()
		s, err := newSealer(secret, second, true)
		if err != nil {
			t.Fatal(err)
		}
		text, ok := s.open([]byte("begin"), sealed[len("begin"):])
		return ok && string(text) == "lease"
	}
	old, err := newSealer(oldSecret, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	sealed := old.seal([]byte("beginlease"), 0, len("begin"))
	for _, tt := range []struct {
		name           string
		secret, second []byte
		want           bool
	}{
		{"the same secret", oldSecret, nil, true},
		{"the old secret is the second", newSecret, oldSecret, true},
		{"the new secret is the second", oldSecret, newSecret, true},
		{"only the new secret", newSecret, nil, false},
	} {
		if got := open(tt.secret, tt.second, sealed); got != tt.want {
			t.Errorf("%s: got opened %v, want %v", tt.name, got, tt.want)
		}
	}
	if _, err := newSealer(newSecret, []byte("short"), true); err == nil {
		t.Error("a short second secret: got no error")
	}
}
