package bars

import "testing"

func TestABarIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, want := range []Bar{{"a page", "≤ 50 ms", "12 ms (p99)", true}, {"a: b", "≤ 1", "2", false}} {
		if got, ok := Parse(want.String()); !ok || got != want {
			t.Errorf("%s: got %+v, %v", want, got, ok)
		}
	}
	for _, line := range []string{"", "bar: ", "something else", "bar: a | b | c | perhaps", "bar: a | b | met"} {
		if got, ok := Parse(line); ok {
			t.Errorf("%q: got %+v, want none", line, got)
		}
	}
}
