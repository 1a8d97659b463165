// Command headgate is a rate limiter: a gateway, a decision service and a rules service, and commands to manage rules.
package main

import (
	"context"
	"os"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
)

func main() {
	p := newProgram(cli.Program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()})
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
