package transport_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// A server is a handler behind the middleware, on a clock that stands still until it is advanced.
type server struct {
	http.Handler
	clock *limittest.Clock
}

func newServer(t *testing.T, list []rules.Rule, fields httplimit.Fields) server {
	t.Helper()
	clock := limittest.NewClock()
	e, _ := enginetest.New(t, list, memstore.Options{Now: clock.Now})
	limit, err := httplimit.New(httplimit.Config{Engine: e, Fields: fields, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return server{limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), clock}
}

// get serves one request with some cost.
func (s server) get(cost int) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Weight", strconv.Itoa(cost))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// perIP returns a rule that limits each client address.
func perIP(limit string) []rules.Rule {
	return []rules.Rule{{
		ID: "a", Key: []headgate.Attribute{{Kind: headgate.AttrIP}}, Limits: enginetest.Limits(limit),
	}}
}

// An item is a member of RateLimit or RateLimit-Policy.
type item struct {
	name   string
	params map[string]int64
}

// readItems parses a structured field of RFC 9651.
func readItems(t *testing.T, values []string) []item {
	t.Helper()
	if len(values) == 0 {
		return nil
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		t.Fatalf("%q is not a list: %v", values, err)
	}
	var items []item
	for _, member := range list {
		i, ok := member.(httpsfv.Item)
		if !ok {
			t.Fatalf("%q has a %T, want items only", values, member)
		}
		name, ok := i.Value.(string)
		if !ok {
			t.Fatalf("%q has a name that is a %T, want strings", values, i.Value)
		}
		params := map[string]int64{}
		for _, key := range i.Params.Names() {
			value, _ := i.Params.Get(key)
			n, ok := value.(int64)
			if !ok || n < 0 {
				t.Fatalf("%q: %s of %s is %v, want a number", values, key, name, value)
			}
			params[key] = n
		}
		items = append(items, item{name, params})
	}
	return items
}

// Random rules are asked at random times, and each response is compared with its promises.
func TestRateLimitFieldsAreConsistentAndTrue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		list, names := enginetest.RandomRules(random)
		s := newServer(t, list, httplimit.Fields{})
		for range 60 {
			s.clock.Advance(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
			cost := 1 + random.IntN(4)
			w := s.get(cost)
			checkResponse(t, w, s.clock.Now(), names)
			if t.Failed() {
				t.Fatalf("rules: %+v\nresponse: %d %v %s", list, w.Code, w.Header(), w.Body)
			}
			if retry := w.Header().Get("Retry-After"); retry != "" && random.IntN(4) == 0 {
				seconds, _ := strconv.Atoi(retry)
				s.clock.Advance(time.Duration(seconds) * time.Second)
				if again := s.get(cost); again.Code != http.StatusOK {
					t.Fatalf("denied again after Retry-After: %s\nrules: %+v\nfirst: %v %s\nthen: %v %s",
						retry, list, w.Header(), w.Body, again.Header(), again.Body)
				}
			}
		}
	}
}

func checkResponse(t *testing.T, w *httptest.ResponseRecorder, now time.Time, names map[string]bool) {
	t.Helper()
	h := w.Header()
	retry := int64(-1)
	if text := h.Get("Retry-After"); text != "" {
		var err error
		if retry, err = strconv.ParseInt(text, 10, 64); err != nil || retry < 1 {
			t.Errorf("Retry-After %q, want a number of seconds, at least 1", text)
		}
	}
	if denied := w.Code != http.StatusOK; denied != (retry > 0) {
		t.Errorf("status %d with Retry-After %d", w.Code, retry)
	}
	policies, states := readItems(t, h.Values("RateLimit-Policy")), readItems(t, h.Values("RateLimit"))
	if len(policies) != len(names) || len(states) != len(names) {
		t.Errorf("%d policies and %d states, want %d of each", len(policies), len(states), len(names))
	}
	least := int64(1 << 62)
	for i, s := range states {
		if !names[s.name] || policies[i].name != s.name {
			t.Errorf("state of %q beside the policy of %q, want the names of the rules", s.name, policies[i].name)
		}
		if policies[i].params["q"] < 4 {
			t.Errorf("%s: q=%d, want its count", s.name, policies[i].params["q"])
		}
		least = min(least, s.params["r"])
		if until, ok := s.params["t"]; ok && retry > 0 && until > retry {
			t.Errorf("%s: t=%d is later than Retry-After: %d", s.name, until, retry)
		}
	}
	if w.Code == http.StatusOK {
		if got := h.Get("X-RateLimit-Remaining"); got != strconv.FormatInt(least, 10) {
			t.Errorf("X-RateLimit-Remaining %s, want that of the tightest, %d", got, least)
		}
	} else {
		checkProblem(t, w, names)
	}
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err != nil || reset < now.Unix() || reset > now.Unix()+122 {
		t.Errorf("X-RateLimit-Reset %s, want a time soon after %d", h.Get("X-RateLimit-Reset"), now.Unix())
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, names map[string]bool) {
	t.Helper()
	var problem struct {
		Type     string   `json:"type"`
		Title    string   `json:"title"`
		Status   int      `json:"status"`
		Detail   string   `json:"detail"`
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Errorf("body %s: %v", w.Body, err)
	}
	if problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || problem.Title == "" ||
		problem.Status != w.Code || problem.Detail == "" || len(problem.Violated) == 0 {
		t.Errorf("problem %+v, want all members", problem)
	}
	for _, name := range problem.Violated {
		if !names[name] {
			t.Errorf("violated %q, which is not a policy", name)
		}
	}
}

// The parameter t is exact for these limits.
func TestMoreIsAvailableAfterParameterT(t *testing.T) {
	for _, limit := range []string{
		"1/7s burst 5", "3/20s burst 9", "2/9s gcra", "5/31s leaky-bucket", "4/1m fixed-window",
	} {
		t.Run(limit, func(t *testing.T) {
			s := newServer(t, perIP(limit), httplimit.Fields{})
			state := func() map[string]int64 { return readItems(t, s.get(1).Header().Values("RateLimit"))[0].params }
			for step := range 40 {
				s.clock.Advance(time.Duration(step*137) * time.Millisecond)
				before := state()
				if before["t"] == 0 {
					t.Fatalf("%v after a request, want t > 0", before)
				}
				s.clock.Advance(time.Duration(before["t"]) * time.Second)
				if after := state(); after["r"] < before["r"] { // state takes one unit itself
					t.Errorf("step %d: r=%d, and r=%d after t=%d seconds and another request; want one more unit by then",
						step, before["r"], after["r"], before["t"])
				}
			}
		})
	}
}

func TestJitterOnlyLengthensRetryAfter(t *testing.T) {
	s := newServer(t, perIP("1/10s"), httplimit.Fields{Jitter: 5 * time.Second})
	s.get(1)
	seen := map[int]bool{}
	for range 199 {
		w := s.get(1)
		retry, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil || retry < 10 || retry > 15 {
			t.Fatalf("Retry-After %q, want 10 to 15", w.Header().Get("Retry-After"))
		}
		if got := readItems(t, w.Header().Values("RateLimit"))[0].params["t"]; got != 10 {
			t.Errorf("t=%d, want 10 without jitter", got)
		}
		seen[retry] = true
	}
	if len(seen) < 4 {
		t.Errorf("Retry-After was one of %v, want at least 4 different values", seen)
	}
}
