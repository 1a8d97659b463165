package terminal

import (
	"math"
	"strings"
)

// Bar returns a bar that fills share of width cells, in eighths of a cell, padded to width. It is empty if share is NaN.
func Bar(share float64, width int) string {
	const eighths = 8
	parts := []rune(" ▏▎▍▌▋▊▉█")
	if math.IsNaN(share) {
		share = 0
	}
	filled := int(min(max(share, 0), 1)*float64(width*eighths) + 0.5)
	bar := strings.Repeat("█", filled/eighths)
	if rest := filled % eighths; rest > 0 {
		bar += string(parts[rest])
	}
	return bar + strings.Repeat(" ", width-len([]rune(bar)))
}

// Spark returns one block for each value, as high as its share of the highest value. Zero is a space.
func Spark(values []float64) string {
	blocks := []rune(" ▁▂▃▄▅▆▇█")
	highest := 0.0
	for _, v := range values {
		highest = max(highest, v)
	}
	var b strings.Builder
	for _, v := range values {
		if v <= 0 {
			b.WriteRune(blocks[0])
			continue
		}
		b.WriteRune(blocks[max(1, int(v/highest*float64(len(blocks)-1)+0.5))])
	}
	return b.String()
}
