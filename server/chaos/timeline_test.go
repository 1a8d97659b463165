package chaos

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestTimelineShowsFaultsAndRates(t *testing.T) {
	line := Timeline{
		Seconds: []Second{{Allowed: 100, P99: 2 * time.Millisecond}, {Allowed: 50, Denied: 50, P99: 20 * time.Millisecond}},
		Faults: []Fault{
			{"kill <node>", 0, time.Second, 2 * time.Second},
			{"pause Redis", time.Second, 2 * time.Second, 2 * time.Second},
			{"kill <node>", time.Second, 2 * time.Second, 2 * time.Second},
		},
	}
	var b strings.Builder
	if err := line.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kill &lt;node&gt;", "pause Redis", "20", `x="190.0"`, `x="640.0"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "kill &lt;"); n != 1 {
		t.Errorf("got %d rows for the same fault, want 1", n)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
