package algorithm

import "embed"

// Cases are the scripts that say what each algorithm answers, and why; package limittest describes their language and
// replays them on any Limiter.
//
//go:embed testdata/*.txt
var Cases embed.FS
