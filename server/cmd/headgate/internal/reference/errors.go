package reference

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

// exitCodes are the exit codes of the program.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{cli.ExitOK, "success"},
	{cli.ExitFailure, "an error; `rules lint`, `rules test`: the rules have problems"},
	{cli.ExitDiffers, "`rules diff`: the files differ from the rules service; `bench`: some requests failed or were not sent"},
	{cli.ExitDenied, "`check`, `explain`: the request is denied"},
	{cli.ExitInterrupted, "interrupted with Ctrl-C; results so far were printed"},
}

// goErrors are the exported errors of the library that callers can compare with errors.Is.
var goErrors = []struct {
	name   string
	err    error
	action string // what the caller should do
}{
	{"headgate.ErrInvalidLimit", headgate.ErrInvalidLimit, "Fix the limit; the error names the field and valid values."},
	{"headgate.ErrInvalidCheck", headgate.ErrInvalidCheck, "Fix the check; the error names the field and valid values."},
	{"headgate.ErrNilContext", headgate.ErrNilContext, "Pass a context."},
	{"headgate.ErrNever", headgate.ErrNever, "Lower the cost or raise the limit: waiting does not help."},
	{"headgate.ErrUnsupported", headgate.ErrUnsupported, "Use another algorithm for this operation."},
	{"headgate.ErrFull", headgate.ErrFull, "Raise the store's memory limit, or use fewer keys."},
	{"headgate.ErrOverloaded", headgate.ErrOverloaded, "Retry after a second; add nodes if it continues."},
	{"headgate.ErrClosed", headgate.ErrClosed, "Do not use the limiter after Close."},
	{"engine.ErrNoRule", engine.ErrNoRule, "Check the rule's id and namespace."},
	{
		"engine.ErrLease", engine.ErrLease,
		"Release each lease only once, with the leaseId of its decision, before the lease's TTL ends.",
	},
}

// Errors returns the reference page about errors, in Markdown.
func Errors() []byte {
	var b bytes.Buffer
	b.WriteString("# Errors\n\nExit codes of the program, and errors of the Go packages. A denial is not an error: it is a decision. " +
		"An error means that nothing was decided.\n\n" +
		"## Exit codes\n\n| code | meaning |\n|--:|---|\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.meaning)
	}
	b.WriteString("\n## In Go\n\nCompare with `errors.Is`.\n\n| error | message | fix |\n|---|---|---|\n")
	for _, e := range goErrors {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.name, strings.ReplaceAll(e.err.Error(), "|", `\|`), e.action)
	}
	b.WriteString("\n## Over the network\n\n| protocol | errors |\n|---|---|\n" +
		"| HTTP and JSON | [statuses](../api.md#errors) |\n| gRPC | [statuses](../grpc.md#decide) |\n" +
		"| Redis clients | [replies](../resp.md#hgtake-and-hgpeek) |\n| rules service | [statuses](../rules-api.md#errors) |\n")
	return b.Bytes()
}
