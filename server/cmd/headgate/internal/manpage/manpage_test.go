package manpage_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/manpage"
)

func newCommand() *cobra.Command {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things"}
	sub := &cobra.Command{
		Use: "copy FILE", Short: "Copy a file", Run: run,
		Long:    "Copy a file.\n\n.hidden is a name, and C:\\x is one…\n\n\ttool copy a\n\ttool copy b",
		Example: "  # one\n  tool copy a -o b",
	}
	sub.Flags().StringP("output", "o", "copy", "where to write `FILE`")
	root.AddCommand(sub, &cobra.Command{Use: "move", Short: "Move a file", Run: run})
	return root
}

func TestPagePrintsTextAsItIs(t *testing.T) {
	c, _, err := newCommand().Find([]string{"copy"})
	if err != nil {
		t.Fatal(err)
	}
	page := manpage.Page(c, manpage.Footer{Version: "v1.2.3", Date: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)})
	path, err := exec.LookPath("groff")
	if err != nil {
		t.Fatalf("%v: install groff", err)
	}
	// groff warns about unknown requests and unterminated blocks.
	command := exec.CommandContext(t.Context(), path, "-man", "-Tutf8", "-ww", "-P-c", "-P-b", "-P-u")
	command.Stdin = strings.NewReader(string(page))
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("groff: %v: %s\n%s", err, errs.String(), page)
	}
	for _, want := range []string{
		"TOOL-COPY(1)", "tool-copy - Copy a file", `.hidden is a name, and C:\x is one…`,
		"tool copy a\n", "-o, --output=FILE", "where to write FILE (default copy)", "# one\n", "tool(1), tool-move(1)",
		"headgate v1.2.3", "2027-01-31",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got %s\nwant %q in it", out, want)
		}
	}
}

func TestWriteAllWritesOnePagePerCommand(t *testing.T) {
	n, err := manpage.WriteAll(t.TempDir(), newCommand(), manpage.Footer{})
	if err != nil || n != 3 {
		t.Errorf("got %d pages and error %v, want 3", n, err)
	}
}
