package client

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"no address":     {},
		"short deadline": {Address: "a:1", Deadline: time.Microsecond},
		"long wait":      {Address: "a:1", BatchWait: time.Second},
		"negative batch": {Address: "a:1", MaxBatch: -1},
		"local policy":   {Address: "a:1", OnFailure: headgate.Local},
		"invalid token":  {Address: "a:1", Token: "two\nlines"},
	} {
		if c, err := New(o); err == nil {
			t.Errorf("%s: got no error", name)
			_ = c.Close()
		}
	}
}
