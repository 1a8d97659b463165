package reference

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
)

// An ExitCode is an exit code of the program.
type ExitCode struct {
	Code    int
	Meaning string
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
	{"engine.ErrLease", engine.ErrLease, "Send the leaseId of the decision, once, before its TTL ends."},
}

// Errors returns the reference page about errors, in Markdown.
func Errors(codes []ExitCode) []byte {
	var b bytes.Buffer
	b.WriteString("# Errors\n\nA denial is not an error: it is a decision. An error means that nothing was decided.\n\n" +
		"## Exit codes\n\n| code | meaning |\n|--:|---|\n")
	for _, c := range codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.Code, c.Meaning)
	}
	b.WriteString("\n## In Go\n\nCompare with `errors.Is`.\n\n| error | message | what to do |\n|---|---|---|\n")
	for _, e := range goErrors {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.name, strings.ReplaceAll(e.err.Error(), "|", `\|`), e.action)
	}
	b.WriteString("\n## Over HTTP, gRPC and RESP\n\nSee [HTTP and JSON](api.md), [gRPC](grpc.md) and [Redis clients](resp.md).\n")
	return b.Bytes()
}
