package rules

import "strings"

// matchRun tells whether a text matches a pattern in which star stands for any characters. It tries again only behind
// the star it saw last, so it takes time in proportion to the product of both lengths at most.
func matchRun(pattern, text string) bool {
	i := strings.IndexByte(pattern, star)
	if i < 0 {
		return pattern == text
	}
	if len(text) < i || text[:i] != pattern[:i] {
		return false
	}
	pattern, text = pattern[i+1:], text[i:]
	for {
		i = strings.IndexByte(pattern, star)
		if i < 0 {
			return strings.HasSuffix(text, pattern)
		}
		at := strings.Index(text, pattern[:i])
		if at < 0 {
			return false
		}
		pattern, text = pattern[i+1:], text[at+i:]
	}
}

// A pathGlob is a pattern of a path with stars.
type pathGlob struct {
	below    string // "/search" for /search/**, the most common form, which needs no segments
	before   string // what stands before the only star of a pattern, if oneStar
	behind   string
	oneStar  bool
	segments []segment
}

type segment struct {
	text  string
	stars bool // it is a pattern
	deep  bool // it is anyPath
}

func (s *segment) match(text string) bool {
	if s.stars {
		return matchRun(s.text, text)
	}
	return s.text == text
}

func newPathGlob(pattern string) pathGlob {
	if prefix, ok := strings.CutSuffix(pattern, "/"+anyPath); ok && !hasStars(prefix) {
		return pathGlob{below: prefix}
	}
	if i := strings.IndexByte(pattern, star); i >= 0 && !hasStars(pattern[i+1:]) && strings.IndexByte(pattern, deep) < 0 {
		return pathGlob{before: pattern[:i], behind: pattern[i+1:], oneStar: true}
	}
	var g pathGlob
	for text := range strings.SplitSeq(pattern, "/") {
		g.segments = append(g.segments, segment{text, strings.Contains(text, anyRun), text == anyPath})
	}
	return g
}

func (g *pathGlob) match(path string) bool {
	if g.oneStar {
		n := len(path) - len(g.behind)
		return n >= len(g.before) && path[n:] == g.behind && path[:len(g.before)] == g.before &&
			strings.IndexByte(path[len(g.before):n], '/') < 0
	}
	if g.segments == nil {
		return isBelow(g.below, path)
	}
	at := 0             // of the path: where its next segment begins, beyond the end when there is none
	next := 0           // of the segments of the pattern
	again, from := 0, 0 // where to go on when it does not fit: behind the last anyPath, one segment later
	for {
		if next < len(g.segments) && g.segments[next].deep {
			next++
			again, from = next, at
			if next == len(g.segments) {
				return true
			}
			continue
		}
		if at > len(path) {
			if next == len(g.segments) {
				return true
			}
			return false // what is left of the pattern needs segments, and later starts have fewer
		}
		if next < len(g.segments) {
			end := segmentEnd(path, at)
			if g.segments[next].match(path[at:end]) {
				next, at = next+1, end+1
				continue
			}
		}
		if again == 0 {
			return false
		}
		from = segmentEnd(path, from) + 1
		if from > len(path) {
			return false
		}
		next, at = again, from
	}
}

// isBelow tells whether a path is another or below it.
func isBelow(base, path string) bool {
	n := len(base)
	return len(path) >= n && path[:n] == base && (len(path) == n || path[n] == '/')
}

// segmentEnd returns where the segment that begins at a place ends.
func segmentEnd(path string, at int) int {
	if i := strings.IndexByte(path[at:], '/'); i >= 0 {
		return at + i
	}
	return len(path)
}
