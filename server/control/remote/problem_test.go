package remote_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/server/control/remote"
)

// The first line does not repeat the listed problems. Of a response that is not a problem, it has the first line.
func TestEachProblemIsReportedOnce(t *testing.T) {
	for _, tt := range []struct{ media, body, want string }{
		{
			"application/problem+json", `{"status":422,"detail":"The request has a problem: limits[0]: Count \"x\": want a number. Earlier lines are imported: see import.",
			"errors":[{"path":"limits[0]","value":"Count \"x\"","want":"a number","line":7}],"import":{"revision":9,"clients":5,"created":4,"updated":1}}`,
			"the rules service says 422: The request has a problem.\n  line 7: limits[0]: Count \"x\": want a number\n  done before it: 5 clients: created 4, updated 1, deleted 0, unchanged 0; revision 9",
		},
		{
			"application/problem+json", `{"status":422,"detail":"The request has 2 problems.","errors":[{"path":"a","want":"b"},{"path":"c","want":"d"}]}`,
			"the rules service says 422: The request has 2 problems.\n  a: want b\n  c: want d",
		},
		{"text/plain", "upstream is away\nmore of it\n", "the rules service says 422: upstream is away"},
		{"text/plain", "\x1b[31mred\n", "the rules service says 422: Unprocessable Entity"},
		{"text/html", "<html>", "the rules service says 422: Unprocessable Entity"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.media)
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(tt.body))
		}))
		c, err := remote.New(remote.Config{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Nodes(t.Context())
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s:\n got %v\nwant %s", tt.body, err, tt.want)
		}
		_ = c.Close()
		server.Close()
	}
}
