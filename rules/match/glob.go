package match

import (
	"strings"

	"github.com/headgate/headgate/rules/internal/pattern"
)

// matchWildcard reports whether a text matches a pattern in which a star matches any characters. It never goes back to
// an earlier star, so its time is at most proportional to the product of both lengths.
func matchWildcard(glob, text string) bool {
	i := strings.IndexByte(glob, pattern.Star)
	if i < 0 {
		return glob == text
	}
	if len(text) < i || text[:i] != glob[:i] {
		return false
	}
	glob, text = glob[i+1:], text[i:]
	for {
		i = strings.IndexByte(glob, pattern.Star)
		if i < 0 {
			return strings.HasSuffix(text, glob)
		}
		at := strings.Index(text, glob[:i])
		if at < 0 {
			return false
		}
		glob, text = glob[i+1:], text[at+i:]
	}
}

// A pathGlob is a path pattern with stars.
type pathGlob struct {
	subtree  string // "/search" for /search/**, the most common form; it needs no segments
	segments []segment
}

type segment struct {
	text       string
	stars      bool // the text has stars
	doubleStar bool // the segment is pattern.AnySegments
}

func (s *segment) match(text string) bool {
	if s.stars {
		return matchWildcard(s.text, text)
	}
	return s.text == text
}

func newPathGlob(glob string) pathGlob {
	if prefix, ok := strings.CutSuffix(glob, "/"+pattern.AnySegments); ok && !pattern.HasStars(prefix) {
		return pathGlob{subtree: prefix}
	}
	var g pathGlob
	for text := range strings.SplitSeq(glob, "/") {
		g.segments = append(g.segments, segment{text, strings.Contains(text, pattern.AnyText), text == pattern.AnySegments})
	}
	return g
}

// match reports whether a path matches the pattern.
func (g *pathGlob) match(path string) bool {
	if g.segments == nil {
		return inSubtree(g.subtree, path)
	}
	at := 0   // index in path of the next segment; len(path)+1 if there is none
	next := 0 // index in g.segments of the next part of the pattern
	// After a mismatch, the last double star takes one more segment: the match continues after the double star, at retry
	// in g.segments and one segment after from in path.
	retry, from := 0, 0
	for {
		if next < len(g.segments) && g.segments[next].doubleStar {
			next++
			retry, from = next, at
			if next == len(g.segments) {
				return true
			}
			continue
		}
		if at > len(path) {
			return next == len(g.segments) // if not, the rest of the pattern needs more segments
		}
		if next < len(g.segments) {
			end := segmentEnd(path, at)
			if g.segments[next].match(path[at:end]) {
				next, at = next+1, end+1
				continue
			}
		}
		if retry == 0 {
			return false
		}
		from = segmentEnd(path, from) + 1
		if from > len(path) {
			return false
		}
		next, at = retry, from
	}
}

// inSubtree reports whether a path is equal to base or below it.
func inSubtree(base, path string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && (rest == "" || rest[0] == '/')
}

// segmentEnd returns the end of the segment that begins at an index.
func segmentEnd(path string, at int) int {
	if i := strings.IndexByte(path[at:], '/'); i >= 0 {
		return at + i
	}
	return len(path)
}
