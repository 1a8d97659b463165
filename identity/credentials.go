package identity

import "strings"

// Services read credentials leniently: they split at any white space, use the first word, remove quotes, or skip
// characters that are not base64. A client could therefore write one credential in many ways and have a separate limit
// with each. So each credential has one canonical form: known variants are converted to it, and all other text is
// malformed.

// A class is a set of bytes.
type class uint8

const (
	// inWord is visible ASCII, without characters that services remove or that end a value.
	inWord class = 1 << iota
	// inBearer is inWord without the equals sign.
	inBearer
	// inCompact is base64url, and the dot between parts.
	inCompact
)

var classes = func() (table [256]class) {
	for c := '!'; c <= '~'; c++ {
		if c == ',' || c == ';' || c == '"' {
			continue
		}
		table[c] = inWord
		if c != '=' {
			table[c] |= inBearer
		}
		if c == '.' || strings.ContainsRune(base64URL, c) {
			table[c] |= inCompact
		}
	}
	return table
}()

// classesOf returns the classes that contain all bytes of the text.
func classesOf(s string) class {
	all := class(0xff)
	for i := range len(s) {
		all &= classes[s[i]]
	}
	return all
}

const wantWord = "one word of visible ASCII characters, without comma, semicolon and quotes"

// isWord reports whether the text, which is not empty, can be an API key.
func isWord(s string) bool { return classesOf(s)&inWord != 0 }

// findKey returns the API key, looked for once per request. A request with several different keys is malformed, because
// the service may read any of them.
func (a *Attributes) findKey() (string, error) {
	if !a.firstTime(foundKey) {
		return a.apiKey, a.keyErr
	}
	key, err := a.sentKey()
	switch {
	case err != nil:
		a.keyErr = err
	case key == "":
	case !isWord(key):
		a.keyErr = malformed("API key", "", wantWord)
	default:
		a.apiKey = a.id.bound(key)
	}
	return a.apiKey, a.keyErr
}

// sentKey returns the API key as it was sent.
func (a *Attributes) sentKey() (string, error) {
	key, same := "", true
	if a.id.apiKey.lower != "" {
		lines := a.endToEndLines(a.id.apiKey)
		if len(lines) == 1 && a.id.config.APIKeyQuery == "" {
			return trim(lines[0]), nil
		}
		for _, line := range lines {
			key, same = agree(key, trim(line), same)
		}
	}
	if a.id.config.APIKeyQuery != "" {
		p := a.parameters(a.id.config.APIKeyQuery)
		for value, ok := p.next(); ok; value, ok = p.next() {
			key, same = agree(key, value, same)
		}
		if p.ambiguous {
			return "", malformed("API key", "",
				"no semicolon, control character or broken escape in it: services read it in different ways")
		}
	}
	if !same {
		return "", malformed("API key", "", "it once; there are several that differ")
	}
	return key, nil
}

// agree adds a value to those that must be equal. Empty ones are ignored.
func agree(known, value string, same bool) (string, bool) {
	if value == "" {
		return known, same
	}
	if known == "" {
		return value, same
	}
	return known, same && known == value
}
