package httplimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/rules"
)

var generous = perIP("100000/s")

// abilities lists what a ResponseWriter can do besides writing.
func abilities(w http.ResponseWriter) string {
	var list []string
	add := func(name string, ok bool) {
		if ok {
			list = append(list, name)
		}
	}
	_, flusher := w.(http.Flusher)
	add("Flusher", flusher)
	_, hijacker := w.(http.Hijacker)
	add("Hijacker", hijacker)
	_, readerFrom := w.(io.ReaderFrom)
	add("ReaderFrom", readerFrom)
	_, pusher := w.(http.Pusher)
	add("Pusher", pusher)
	_, stringWriter := w.(io.StringWriter)
	add("StringWriter", stringWriter)
	_, closeNotifier := w.(interface{ CloseNotify() <-chan bool })
	add("CloseNotifier", closeNotifier)
	return strings.Join(list, " ")
}

func TestHandlersGetWritersThatCanDoWhatTheServersCan(t *testing.T) {
	report := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, abilities(w)) })
	gated := newTimedGate(t, generous, httplimit.Config{}).limit(report)
	body := func(c *http.Client, url string) string {
		t.Helper()
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Proto + ": " + string(text)
	}
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			ask := func(h http.Handler) string {
				s := httptest.NewUnstartedServer(h)
				s.EnableHTTP2 = proto == "HTTP/2.0"
				s.StartTLS()
				defer s.Close()
				return body(s.Client(), s.URL)
			}
			if got, want := ask(gated), ask(report); got != want || !strings.HasPrefix(got, proto) {
				t.Errorf("behind the gate it can do\n%s, want as without\n%s", got, want)
			}
		})
	}
	t.Run("a writer that can do nothing", func(t *testing.T) {
		w := &scrap{header: http.Header{}}
		gated.ServeHTTP(w, bareRequest(t))
		if got := string(w.body); got != "StringWriter" { // io.WriteString does as well without
			t.Errorf("it claims %s, want nothing it cannot do", got)
		}
	})
	t.Run("a writer that flushes", func(t *testing.T) {
		w := httptest.NewRecorder()
		gated.ServeHTTP(w, bareRequest(t))
		if got := w.Body.String(); got != "Flusher StringWriter" {
			t.Errorf("it claims %s, want Flusher and StringWriter", got)
		}
	})
}

func TestFieldsAreThereHoweverTheHandlerAnswers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(name, []byte("contents"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}},
		{"WriteHeader", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		{"Write", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("text")) }},
		{"WriteString", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }},
		{"Flush", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "text")
		}},
		{"ResponseController.Flush", func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}},
		{"io.Copy", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("text")})
		}},
		{"ServeFile", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) }},
		{"not modified", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }},
		{"redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }},
		{"error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }},
		{"TimeoutHandler", func(w http.ResponseWriter, r *http.Request) { http.TimeoutHandler(ok, time.Minute, "").ServeHTTP(w, r) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, perIP("10/s"), httplimit.Config{})
			url := serve(t, g.limit(tt.handler))
			resp, err := http.DefaultTransport.RoundTrip(mustRequest(t, url))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			for _, want := range []struct{ name, value string }{
				{"RateLimit", `"a";r=9;t=1`},
				{"RateLimit-Policy", `"a";q=10;w=1`},
				{"X-RateLimit-Limit", "10"},
				{"X-RateLimit-Remaining", "9"},
				{"X-RateLimit-Reset", "1767225601"},
			} {
				if got := resp.Header.Values(want.name); len(got) != 1 || got[0] != want.value {
					t.Errorf("%s: got %q, want %q", want.name, got, want.value)
				}
			}
		})
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInterimAnswersHaveNoFields(t *testing.T) {
	g := newGate(t, generous, httplimit.Config{})
	url := serve(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "text")
	})))
	var early textproto.MIMEHeader
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			early = h
			return nil
		},
	})
	resp, err := http.DefaultTransport.RoundTrip(mustRequest(t, url).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if early.Get("Link") == "" || early.Get("RateLimit") != "" {
		t.Errorf("early hints %v, want Link and no RateLimit", early)
	}
	if resp.Header.Get("RateLimit") == "" {
		t.Error("no RateLimit in the answer itself")
	}
}

func TestResponseControllerReachesTheConnection(t *testing.T) {
	g := newGate(t, generous, httplimit.Config{})
	url := serve(t, g.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		for _, err := range []error{
			c.EnableFullDuplex(), c.SetReadDeadline(time.Now().Add(time.Minute)), c.SetWriteDeadline(time.Now().Add(time.Minute)),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		// Full duplex: each line is answered before the next is sent.
		in := bufio.NewReader(r.Body)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, strings.ToUpper(line))
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
		}
	})))
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(conn)
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := bufio.NewReader(resp.Body)
	if line, err := out.ReadString('\n'); err != nil || line != "ONE\n" {
		t.Fatalf("got %q, %v, want ONE", line, err)
	}
	_, _ = io.WriteString(conn, "4\r\ntwo\n\r\n0\r\n\r\n")
	if line, err := out.ReadString('\n'); err != nil || line != "TWO\n" {
		t.Fatalf("got %q, %v, want TWO", line, err)
	}
}

// readerFrom is a writer that reads by itself, as the one of net/http does to have the system send files.
type readerFrom struct {
	*httptest.ResponseRecorder
	read bool
}

func (w *readerFrom) ReadFrom(r io.Reader) (int64, error) {
	w.read = true
	return io.Copy(w.ResponseRecorder, r)
}

func (w *readerFrom) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.ErrUnsupported
}

func TestFilesAreReadByTheWriterBelow(t *testing.T) {
	w := &readerFrom{ResponseRecorder: httptest.NewRecorder()}
	g := newGate(t, generous, httplimit.Config{})
	g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.Copy(w, struct{ io.Reader }{strings.NewReader("text")}); err != nil {
			t.Error(err)
		}
	})).ServeHTTP(w, bareRequest(t))
	if !w.read || w.Body.String() != "text" {
		t.Errorf("read by the writer below: %v, body %q, want true and text", w.read, w.Body)
	}
}

func TestHandlerIsNotWrappedWhereThereIsNothingToTell(t *testing.T) {
	for name, c := range map[string]struct {
		rules  []rules.Rule
		fields httplimit.Fields
	}{
		"no rule matches": {rules: otherPath},
		"in the shadow": {rules: []rules.Rule{
			{ID: "a", Key: byIP, Limits: enginetest.Limits("1/s"), OnLimit: rules.OnLimit{Action: rules.Shadow}},
		}},
		"it is unlimited":     {rules: []rules.Rule{{ID: "a", Unlimited: true}}},
		"dialects are off":    {rules: generous, fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}},
		"cost and no dialect": {rules: byTokens, fields: httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &scrap{header: http.Header{}}
			g := newGate(t, c.rules, httplimit.Config{Fields: c.fields})
			g.limit(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
				if got != w {
					t.Errorf("the handler got a %T, want the server's own writer", got)
				}
			})).ServeHTTP(w, bareRequest(t))
		})
	}
}
