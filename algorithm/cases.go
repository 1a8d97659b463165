package algorithm

import "embed"

// Cases holds scripts with the expected decisions of each algorithm. Package limittest describes the language of these
// scripts and runs them on any Limiter.
//
//go:embed testdata/*.txt
var Cases embed.FS
