package telemetry_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/headgate/headgate/telemetry"
)

func TestTheLogIsJSONOrTextFromALevelOn(t *testing.T) {
	var b bytes.Buffer
	log, err := telemetry.NewLogger(&b, telemetry.LogJSON, "warn")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("nothing")
	log.Warn("something", "n", 1)
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line["msg"] != "something" || line["n"] != 1.0 {
		t.Errorf("got %s, %v", b.String(), err)
	}
	b.Reset()
	if log, err = telemetry.NewLogger(&b, telemetry.LogText, "debug"); err != nil {
		t.Fatal(err)
	}
	log.Debug("something", "n", 1)
	if got := b.String(); !strings.Contains(got, "level=DEBUG msg=something n=1") {
		t.Errorf("got %s", got)
	}
}

func TestWordsThatAreNoneAreRefused(t *testing.T) {
	for _, tt := range []struct{ format, level, want string }{
		{"xml", "info", "json or text"},
		{"json", "loud", "debug, info, warn or error"},
		{"json", "INFO", "debug, info, warn or error"},
	} {
		if _, err := telemetry.NewLogger(nil, tt.format, tt.level); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: got %v, want an error with %q", tt.format, tt.level, err, tt.want)
		}
	}
}
