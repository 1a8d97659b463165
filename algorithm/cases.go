package algorithm

import "embed"

// Cases holds scripts with the expected decisions of each algorithm. Package limittest describes their language and
// replays them on any Limiter.
//
//go:embed testdata/*.txt
var Cases embed.FS
