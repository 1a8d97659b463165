package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/telemetry"
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

func TestInvalidFormatAndLevelAreRefused(t *testing.T) {
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

func TestLogLinesStayShort(t *testing.T) {
	long := strings.Repeat("rules.yaml:3: want \"10/s\"\n", 300)
	for _, format := range []string{telemetry.LogJSON, telemetry.LogText} {
		for name, args := range map[string][]any{
			"one long text":   {"err", errors.New(long), "rule", "search"},
			"many long texts": {"a", long, "b", long, "c", long, "d", long, "e", 5, "f", long},
			"a list":          {"files", strings.Split(long, "\n"), "rule", "search"},
			"not UTF-8":       {"err", strings.Repeat("\xff\x00é", 3000), "rule", "search"},
			"a short line":    {"err", "no room", "rule", "search"},
		} {
			var b bytes.Buffer
			log, err := telemetry.NewLogger(&b, format, "info")
			if err != nil {
				t.Fatal(err)
			}
			log.With("part", "rules").Error("rules refused, keeping the rules in force", args...)
			if b.Len() > 1024 || strings.Count(b.String(), "\n") != 1 {
				t.Errorf("%s, %s: got %d bytes and %d lines, want at most 1024 in one", format, name, b.Len(), strings.Count(b.String(), "\n"))
			}
			if format == telemetry.LogJSON && !json.Valid(b.Bytes()) {
				t.Errorf("%s: got %s, want JSON", name, b.Bytes())
			}
			if !strings.Contains(b.String(), "rules refused, keeping the rules in force") || name != "many long texts" && !strings.Contains(b.String(), "search") {
				t.Errorf("%s, %s: got %s, want its short parts whole", format, name, b.String())
			}
			if cut := strings.Contains(b.String(), " B)"); cut != (name != "a short line") {
				t.Errorf("%s, %s: got %s, want it to say what was left out only if something was", format, name, b.String())
			}
		}
	}
}

func TestLogLinesKeepTextAfterAnInvalidByte(t *testing.T) {
	var b bytes.Buffer
	log, err := telemetry.NewLogger(&b, telemetry.LogJSON, "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("something", "err", errors.New("a\xffb"+strings.Repeat("long ", 400)))
	if got := b.String(); len(got) > 1000 || strings.Count(got, "long ") < 50 {
		t.Errorf("got %d bytes, %s, want the start of the text behind the invalid byte", len(got), got)
	}
}

func TestComponentsHaveTheirOwnLogLevel(t *testing.T) {
	var b bytes.Buffer
	log, err := telemetry.NewLogger(&b, telemetry.LogText, "warn,gateway=debug,store=error")
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"gateway", "store", "rules"} {
		part := log.With("node", "n1").With(telemetry.ComponentKey, component).With("x", 1)
		part.Debug(component + "-debug")
		part.Warn(component + "-warn")
	}
	log.Info("other-info")
	var got []string
	for line := range strings.Lines(b.String()) {
		_, rest, _ := strings.Cut(line, "msg=")
		message, _, _ := strings.Cut(rest, " ")
		got = append(got, message)
	}
	if want := "gateway-debug gateway-warn rules-warn"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, levels := range []string{"info,warn", "gateway=loud", "kitchen=info", "store=info,store=warn", "", "info,"} {
		if _, err := telemetry.ParseLevels(levels); err == nil {
			t.Errorf("%q: got no error", levels)
		}
	}
}
