// Command headgate decides how much of a service each client may take: as a gateway before it, and from the shell.
package main

import (
	"context"
	"os"
)

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
