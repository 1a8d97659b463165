package signature_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/signature"
)

const hookSecret = "a secret that both sides know"

func TestVerifyAcceptsOnlyCurrentSignatures(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	secret, body := []byte(hookSecret), []byte(`{"revision":42}`)
	good := signature.Sign(secret, body, now)
	_, sum, _ := strings.Cut(good, ",")
	for _, tt := range []struct {
		name   string
		secret string
		header string
		body   string
		at     time.Time
		want   error
	}{
		{"right", hookSecret, good, string(body), now, nil},
		{"almost too old", hookSecret, good, string(body), now.Add(signature.Window), nil},
		{"too old", hookSecret, good, string(body), now.Add(signature.Window + time.Second), signature.ErrTime},
		{"too early", hookSecret, good, string(body), now.Add(-signature.Window - time.Second), signature.ErrTime},
		{"another secret", "another secret, as long", good, string(body), now, signature.ErrInvalid},
		{"no secret", "", signature.Sign(nil, body, now), string(body), now, signature.ErrInvalid},
		{"another body", hookSecret, good, `{"revision":43}`, now, signature.ErrInvalid},
		{"another time", hookSecret, "t=1800000001," + sum, string(body), now, signature.ErrInvalid},
		{"no time", hookSecret, sum, string(body), now, signature.ErrInvalid},
		{"nothing", hookSecret, "", string(body), now, signature.ErrInvalid},
		{"another version", hookSecret, strings.Replace(good, "v1", "v0", 1), string(body), now, signature.ErrInvalid},
		{"one of two", hookSecret, strings.Replace(good, "v1", "v1=00,v1", 1), string(body), now, nil},
		{"no hex", hookSecret, "t=1800000000,v1=zz", string(body), now, signature.ErrInvalid},
	} {
		if err := signature.Verify([]byte(tt.secret), tt.header, []byte(tt.body), tt.at); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestVerifierRefusesReplays(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	secret, body := []byte(hookSecret), []byte("body")
	v := signature.NewVerifier(secret)
	header := signature.Sign(secret, body, now)
	for _, want := range []error{nil, signature.ErrReplayed} {
		if err := v.Verify(header, body, now); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if err := v.Verify(header, []byte("other"), now); !errors.Is(err, signature.ErrInvalid) {
		t.Errorf("another body: got %v, want %v", err, signature.ErrInvalid)
	}
}

func ExampleVerify() {
	secret := []byte("shown once, when the webhook was made")
	handle := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err := signature.Verify(secret, r.Header.Get(signature.Header), body, time.Now()); err != nil {
			fmt.Println(err)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Printf("%s\n", body)
	}
	body := `{"event":"revision","namespace":"default","revision":42}`
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set(signature.Header, signature.Sign(secret, []byte(body), time.Now()))
	handle(httptest.NewRecorder(), r)

	r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Replace(body, "42", "43", 1)))
	r.Header.Set(signature.Header, signature.Sign(secret, []byte(body), time.Now()))
	handle(httptest.NewRecorder(), r)
	// Output:
	// {"event":"revision","namespace":"default","revision":42}
	// the signature is invalid
}
