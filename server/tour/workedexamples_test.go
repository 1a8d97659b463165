package tour

import (
	"testing"
)

const wantExamples = `
3  Worked examples

  A bucket of 10 that refills at 10/s:
    at    0 ms  look    ████████████████████ 10 of 10
    at  300 ms  take 6  ████████              4 of 10
    at  500 ms  look    ████████████          6 of 10
    at  500 ms  take 5  ██                    1 of 10
    at 1400 ms  look    ████████████████████ 10 of 10

  Three hosts share 4/s; each decides alone, then they charge each other:
    take  A 1  B 2  C 1   after the exchange  A  0  B  0  C  0
    take  A 4  B 4  C 4   after the exchange  A -8  B -8  C -8  closed for 2s

  20 requests 50 ms before a full second and 20 just after it, of 10/s:
    fixed-window    10 + 10 = 20 within 51 ms
    sliding-window  10 +  0 = 10 within 51 ms
    sliding-log     10 +  0 = 10 within 51 ms
`

func TestWorkedExamplesAreDecidedAsDocumented(t *testing.T) {
	d, out := newDemo(false)
	if err := d.showWorkedExamples(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != wantExamples {
		t.Errorf("got\n%s\nwant\n%s", got, wantExamples)
	}
}
