package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/rules"
)

func TestAllocations(t *testing.T) {
	racing.Skip(t, "the race detector allocates")
	off := httplimit.Fields{NoRateLimit: true, NoXRateLimit: true}
	for _, tt := range []struct {
		name   string
		rules  []rules.Rule
		fields httplimit.Fields
		most   float64
	}{
		{"no rule", nil, httplimit.Fields{}, 0},
		{"no rule for it", otherPath, httplimit.Fields{}, 0},
		{"allowed, and nothing is told", perIP("1000000000/s"), off, 0},
		{"allowed", perIP("1000000000/s"), httplimit.Fields{}, 2}, // the writer and the text
		{"three limits", perIP("1000000000/s", "1000000000/m", "1000000000/h"), httplimit.Fields{}, 2},
		{"rejected", closed, httplimit.Fields{}, 2}, // the values and their text
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newTimedGate(t, tt.rules, httplimit.Config{Fields: tt.fields}).limit(ok)
			r := bareRequest(t)
			w := &scrap{header: http.Header{}, body: make([]byte, 0, 4096)}
			got := testing.AllocsPerRun(1000, func() {
				clear(w.header)
				h.ServeHTTP(w, r)
			})
			if got > tt.most {
				t.Errorf("%v allocations, want at most %v", got, tt.most)
			}
		})
	}
}
