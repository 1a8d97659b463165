package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/sqlite"
	decisions "github.com/headgate/headgate/server/service"
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
