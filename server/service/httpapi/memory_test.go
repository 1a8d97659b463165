package httpapi_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/service/httpapi"
)

func TestNoBodyTakesMoreThan64MB(t *testing.T) {
	a := newAPI(t, `rules: [{id: all, limits: 5/s}]`, httpapi.Config{})
	long := func(text string) string { return strings.Repeat(text, (1<<20-100)/len(text)) }
	for name, body := range map[string]string{
		"brackets": long("["), "empty lists": "[" + long("[],") + "0]", "empty objects": "[" + long("{},") + "{}]", "numbers": "[" + long("0,") + "0]",
		"rules": "[" + long(`{"ruleId":"all"},`) + "{}]", "attributes": `[{"attributes":{` + long(`"a":"b",`) + `"a":"b"}}]`,
		"a text": `[{"ruleId":"` + long("x") + `"}]`, "one object": `{` + long(`"cost":1,`) + `"cost":1}`,
	} {
		for _, path := range []string{"/v1/ratelimit", "/v1/ratelimit:batch"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a.call("POST", path, body)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%s, %s: %d MB allocated, want at most 64", path, name, got>>20)
			}
		}
	}
}
