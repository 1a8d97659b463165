// Command headgate is a rate limiter: a gateway, a decision service and a rules service, and commands to manage rules.
package main

import (
	"context"
	"os"
)

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
