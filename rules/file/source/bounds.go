package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrTooLarge is wrapped by errors of Bounds.Check.
var ErrTooLarge = errors.New("too large")

// Bounds limit the memory for parsing a text from an untrusted sender. A parser needs hundreds of bytes for each token,
// so Bounds are checked before parsing.
type Bounds struct {
	// JSONTokens is the maximum number of brackets, commas and colons in JSON. JSONItems is the maximum number of
	// values in a list or fields in a mapping.
	JSONTokens, JSONItems int
	// YAMLBytes is the maximum number of bytes of YAML. YAMLTokens is the maximum number of its tokens, by an estimate
	// that is never too low.
	YAMLBytes, YAMLTokens int
}

// Check returns an error that wraps ErrTooLarge if a text exceeds the bounds. The name selects JSON or YAML, as in
// Read. Check allocates nothing.
func (b Bounds) Check(name string, data []byte) error {
	if isJSON(name, data) {
		return b.checkJSON(data)
	}
	if len(data) > b.YAMLBytes {
		return tooLarge(strconv.Itoa(len(data))+" bytes of YAML", b.YAMLBytes)
	}
	if n := yamlTokens(data); n > b.YAMLTokens {
		return tooLarge("about "+strconv.Itoa(n)+" tokens of YAML", b.YAMLTokens)
	}
	return nil
}

func tooLarge(value string, limit int) error {
	return fmt.Errorf("%w: %s: want at most %d", ErrTooLarge, value, limit)
}

// isJSON reports whether Read parses a text as JSON.
func isJSON(name string, data []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	default:
		return len(data) <= MaxJSON && json.Valid(data)
	}
}

func (b Bounds) checkJSON(data []byte) error {
	var items [MaxDepth + 2]int // commas in the lists and mappings that are open
	tokens, depth, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		switch c {
		case '"':
			quoted = true
		case '[', '{':
			tokens++
			if depth++; depth > MaxDepth {
				return nil // the parser refuses this depth before it allocates memory
			}
			items[depth] = 0
		case ']', '}':
			depth = max(depth-1, 0)
		case ',':
			tokens++
			if items[depth]++; items[depth] >= b.JSONItems {
				return tooLarge("a list of more than "+strconv.Itoa(b.JSONItems)+" values", b.JSONItems)
			}
		case ':':
			tokens++
		}
		if tokens > b.JSONTokens {
			return tooLarge("more than "+strconv.Itoa(b.JSONTokens)+" brackets, commas and colons", b.JSONTokens)
		}
	}
	return nil
}

// yamlTokens returns an upper bound of the number of tokens that the lexer finds. It counts one token for each
// character that can be an indicator, one for a scalar after it, and one for a scalar on each line.
func yamlTokens(data []byte) int {
	indicators, lines := 0, 1
	atStart := true // the next character may begin a token
	for _, c := range data {
		switch c {
		case '\n', '\r':
			lines++
			atStart = true
			continue
		case ' ', '\t':
			atStart = true
			continue
		case ',', '[', ']', '{', '}', ':', '\'', '"':
			indicators++
			atStart = true
			continue
		case '-', '?', '#', '&', '*', '!', '|', '>', '%', '@', '`', '.', '=', '<', '~':
			if atStart {
				indicators++
				continue // atStart stays true: another indicator may follow
			}
		}
		atStart = false
	}
	return 2*indicators + lines
}
