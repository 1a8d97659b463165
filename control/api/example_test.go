package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate/headgate/control/api"
	"github.com/headgate/headgate/control/sqlite"
	decisions "github.com/headgate/headgate/service"
)

func Example() {
	dir, err := os.MkdirTemp("", "headgate")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sqlite.Open(context.Background(), filepath.Join(dir, "rules.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()
	logins, err := decisions.NewLogins(decisions.LoginOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = logins.Close() }()

	const token = "one line of a file, by chance"
	server, err := api.New(api.Config{DB: db, Logins: logins, AdminToken: token})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	r := httptest.NewRequest(http.MethodPut, "/v1/rules/search", strings.NewReader(`{"id":"search","key":["user"],"limits":["10/s"]}`))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("ETag"))
	// Output: 201 "1"
}

func ExampleVerifyHook() {
	secret := []byte("shown once, when the webhook was made")
	take := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err := api.VerifyHook(secret, r.Header.Get(api.SignatureHeader), body, time.Now()); err != nil {
			fmt.Println(err)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Printf("%s\n", body)
	}
	body := `{"event":"revision","namespace":"default","revision":42}`
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set(api.SignatureHeader, api.Sign(secret, []byte(body), time.Now()))
	take(httptest.NewRecorder(), r)

	r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Replace(body, "42", "43", 1)))
	r.Header.Set(api.SignatureHeader, api.Sign(secret, []byte(body), time.Now()))
	take(httptest.NewRecorder(), r)
	// Output:
	// {"event":"revision","namespace":"default","revision":42}
	// the signature is not right
}
