package resp_test

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service/resp"
)

// TestDocsMatchRedisCLI replays the examples of docs/resp.md with the rules there.
func TestDocsMatchRedisCLI(t *testing.T) {
	text, err := os.ReadFile("../../../docs/resp.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(kind string) (found []string) {
		for _, part := range strings.Split(string(text), "```"+kind+"\n")[1:] {
			block, _, _ := strings.Cut(part, "```")
			found = append(found, block)
		}
		return found
	}
	yaml := blocks("yaml")
	if len(yaml) != 1 {
		t.Fatalf("got %d blocks of rules, want 1", len(yaml))
	}
	doc, err := file.Parse("docs/resp.md", []byte(yaml[0]))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, memstore.Options{Now: limittest.NewClock().Now})
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(serve(t, resp.Config{Engine: e, Store: store, Logger: slog.New(slog.DiscardHandler)}).address)
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range blocks("console") {
		for _, example := range strings.Split(block, "> ")[1:] {
			command, want, _ := strings.Cut(example, "\n")
			got := output(t, "", "redis-cli", append([]string{"-h", host, "-p", port, "--no-raw"}, strings.Fields(command)...)...)
			if got != want {
				t.Errorf("%s: got %s, docs/resp.md says %s", command, got, want)
			}
			examples++
		}
	}
	if examples < 10 {
		t.Errorf("%d examples, want those of the docs", examples)
	}
}
