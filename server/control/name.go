package control

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/rules"
)

// DefaultNamespace is the namespace of calls that do not name one.
const DefaultNamespace = "default"

// SystemNamespace is the namespace of tokens. IsName rejects it, so that no caller can name it.
const SystemNamespace = "_system"

// SystemActor is the actor of changes that the rules service makes by itself.
const SystemActor = "headgate"

// NameFormat describes the names that IsName accepts.
const NameFormat = "letters, digits, '-', '_' and '.', beginning with a letter or a digit, at most 128 bytes"

// IsName reports whether a text is a valid name of a namespace, a node, a token or a webhook.
func IsName(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}
	for i := range len(text) {
		c := text[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && (i == 0 || strings.IndexByte("-_.", c) < 0) {
			return false
		}
	}
	return true
}

// CheckName returns an error if IsName is false.
func CheckName(name string) error {
	if !IsName(name) {
		return fmt.Errorf("%s: want %s", rules.Quote(name), NameFormat)
	}
	return nil
}

// IsText reports whether every database can store a text and search for it: it is UTF-8 without zero bytes.
func IsText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }
