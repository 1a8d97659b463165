package doctor

import (
	"strings"
	"testing"
)

func TestOlderSchemaIsAWarning(t *testing.T) {
	r := new(run)
	r.addSchema("db", "rules.db", 1, 2)
	if got := r.report.Checks[0]; got.Status != Warning || !strings.Contains(got.Fix, "headgate backup") {
		t.Errorf("got %+v, want a warning to make a backup", got)
	}
}
