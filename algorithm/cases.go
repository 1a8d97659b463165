package algorithm

import "embed"

// Cases holds scripts with the expected decisions of each algorithm. Package limittest runs these scripts on any
// Limiter and describes their language.
//
//go:embed testdata/*.txt
var Cases embed.FS
