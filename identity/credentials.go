package identity

import "strings"

// Services read credentials leniently. They split on any white space, take the first word, remove quotes, skip characters
// that base64 does not have. A client could therefore write one credential in many ways and have a new limit with each. So
// there is one form of each credential: text that differs from it in a known way is normalised, all other text is malformed.

// A class is a set of bytes that credentials consist of.
type class uint8

const (
	// inWord is visible ASCII, without the characters at which services end a value or that they remove from it.
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

// classesOf returns the classes that all bytes of the text are in.
func classesOf(s string) class {
	all := class(0xff)
	for ; len(s) >= 8; s = s[8:] {
		all &= classes[s[0]] & classes[s[1]] & classes[s[2]] & classes[s[3]] &
			classes[s[4]] & classes[s[5]] & classes[s[6]] & classes[s[7]]
	}
	for i := range len(s) {
		all &= classes[s[i]]
	}
	return all
}

const wantWord = "one word of visible ASCII characters, without comma, semicolon and quotes"

// isWord reports whether the text, which is not empty, can be an API key.
func isWord(s string) bool { return classesOf(s)&inWord != 0 }

// findKey returns the API key, once. If there are several that differ, the service may read any of them, and a client could
// send a different one to us each time: the request is malformed.
func (a *Attributes) findKey() (string, error) {
	if !a.learn(knowsKey) {
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
		lines := a.endToEnd(a.id.apiKey)
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
		if p.odd {
			return "", malformed("API key", "", "no semicolon, control character or broken escape in it: services read it in different ways")
		}
	}
	if !same {
		return "", malformed("API key", "", "it once; there are several that differ")
	}
	return key, nil
}

// agree adds a value to those that must be the same. Empty ones do not count.
func agree(known, value string, same bool) (string, bool) {
	if value == "" {
		return known, same
	}
	if known == "" {
		return value, same
	}
	return known, same && known == value
}
