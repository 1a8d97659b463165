package problem_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/headgate/headgate/server/control/internal/problem"
)

func TestReadBodyTellsLargeFromMissingBodies(t *testing.T) {
	for _, test := range []struct {
		name   string
		body   io.Reader
		status int
	}{
		{"as long as allowed", strings.NewReader("12345678"), http.StatusOK},
		{"too long", strings.NewReader("123456789"), http.StatusRequestEntityTooLarge},
		{"cut off", iotest.ErrReader(errors.New("connection reset")), http.StatusBadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			got, failure := problem.ReadBody(w, httptest.NewRequest(http.MethodPost, "/", test.body), 8)
			if failure != nil {
				failure.Write(w)
			}
			if w.Code != test.status {
				t.Errorf("got status %d, want %d: %s", w.Code, test.status, w.Body)
			}
			if failure == nil && !bytes.Equal(got, []byte("12345678")) {
				t.Errorf("got body %q, want 12345678", got)
			}
		})
	}
}
