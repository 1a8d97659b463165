package topology

import (
	"strconv"
	"strings"
)

// ParseInfo parses a response to INFO: lines of name:value.
func ParseInfo(text string) map[string]string {
	info := make(map[string]string)
	text = strings.TrimPrefix(text, "txt:") // the format marker of a RESP3 verbatim string
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// Number returns an integer field of INFO, or 0 if the field is missing or not an integer.
func Number(info map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(info[name], 10, 64)
	return n
}
