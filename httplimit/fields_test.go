package httplimit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate/httplimit"
)

// An item is a member of RateLimit or RateLimit-Policy.
type item struct {
	name   string
	params map[string]int64
}

// readItems reads a field as RFC 9651 has it.
func readItems(t *testing.T, values []string) []item {
	t.Helper()
	if len(values) == 0 {
		return nil
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		t.Fatalf("%q is no list: %v", values, err)
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

// TestWhatIsToldIsTrue asks gates with rules by chance at times by chance, and holds each answer against what it
// promises.
func TestWhatIsToldIsTrue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		text, names := randomRules(random)
		g := newGate(t, text, httplimit.Config{})
		h := g.limit(ok)
		for range 60 {
			g.clock.Advance(time.Duration(random.ExpFloat64() * float64(300*time.Millisecond)))
			w := httptest.NewRecorder()
			r := bareRequest(t)
			r.Header.Set("X-Weight", strconv.Itoa(1+random.IntN(4)))
			h.ServeHTTP(w, r)
			checkAnswer(t, w, g.clock.Now(), names)
			if t.Failed() {
				t.Fatalf("rules:\n%s\nanswer: %d %v %s", text, w.Code, w.Header(), w.Body)
			}
			if retry := w.Header().Get("Retry-After"); retry != "" && random.IntN(4) == 0 {
				seconds, _ := strconv.Atoi(retry)
				g.clock.Advance(time.Duration(seconds) * time.Second)
				again := httptest.NewRecorder()
				h.ServeHTTP(again, r)
				if again.Code != http.StatusOK {
					t.Fatalf("after Retry-After: %s it is denied again\nrules:\n%s\nfirst: %v %s\nthen: %v %s",
						retry, text, w.Header(), w.Body, again.Header(), again.Body)
				}
			}
		}
	}
}

// randomRules returns a rules file and the names of its limits' policies.
func randomRules(random *rand.Rand) (text string, names map[string]bool) {
	algorithms := []string{"", " gcra", " leaky-bucket", " fixed-window", " sliding-window", " sliding-log", " sliding-buckets"}
	periods := []string{"100ms", "1s", "1500ms", "7s", "1m"}
	names = map[string]bool{}
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range 1 + random.IntN(3) {
		id := fmt.Sprintf("rule-%d.%c", i, 'a'+random.IntN(26))
		limits := make([]string, 1+random.IntN(3))
		for j := range limits {
			limits[j] = fmt.Sprintf("%d/%s%s", 4+random.IntN(12), periods[random.IntN(len(periods))], algorithms[random.IntN(len(algorithms))])
			name := id
			if len(limits) > 1 {
				name += "/" + strconv.Itoa(j+1)
			}
			names[name] = true
		}
		fmt.Fprintf(&b, "  - { id: %s, key: ip, limits: [%s], cost: { header: X-Weight, max: 4 } }\n", id, strings.Join(limits, ", "))
	}
	return b.String(), names
}

func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, now time.Time, names map[string]bool) {
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
		if until, told := s.params["t"]; told && retry > 0 && until > retry {
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
		t.Errorf("problem %+v, want all of it", problem)
	}
	for _, name := range problem.Violated {
		if !names[name] {
			t.Errorf("violated %q, which is no policy", name)
		}
	}
}

// TestMoreIsThereWhenToldSo waits as long as t says, of limits of which this is exact.
func TestMoreIsThereWhenToldSo(t *testing.T) {
	for _, limit := range []string{"1/7s burst 5", "3/20s burst 9", "2/9s gcra", "5/31s leaky-bucket", "4/1m fixed-window"} {
		t.Run(limit, func(t *testing.T) {
			g := newGate(t, "rules: [{id: a, key: ip, limits: ["+limit+"]}]", httplimit.Config{})
			h := g.limit(ok)
			for step := range 40 {
				g.clock.Advance(time.Duration(step*137) * time.Millisecond)
				before := stateOf(t, h)
				if before["t"] == 0 {
					t.Fatalf("%v: something was taken, want t to tell when more is there", before)
				}
				g.clock.Advance(time.Duration(before["t"]) * time.Second)
				after := stateOf(t, h) // which takes one
				if after["r"] < before["r"] {
					t.Errorf("step %d: r=%d, and after t=%d seconds and another request r=%d: want one more to have come", step, before["r"], before["t"], after["r"])
				}
			}
		})
	}
}

func stateOf(t *testing.T, h http.Handler) map[string]int64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, bareRequest(t))
	return readItems(t, w.Header().Values("RateLimit"))[0].params
}

func TestJitterMakesRetryAfterLongerAndNeverShorter(t *testing.T) {
	g := newGate(t, "rules: [{id: a, key: ip, limits: 1/10s}]", httplimit.Config{Fields: httplimit.Fields{Jitter: 5 * time.Second}})
	h := g.limit(ok)
	seen := map[int]bool{}
	for i := range 200 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, bareRequest(t))
		if i == 0 {
			continue
		}
		retry, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil || retry < 10 || retry > 15 {
			t.Fatalf("Retry-After %q, want 10 to 15", w.Header().Get("Retry-After"))
		}
		if got := readItems(t, w.Header().Values("RateLimit"))[0].params["t"]; got != 10 {
			t.Errorf("t=%d, want 10: when more is there is not by chance", got)
		}
		seen[retry] = true
	}
	if len(seen) < 4 {
		t.Errorf("only %v were said, want clients to be spread", seen)
	}
}
