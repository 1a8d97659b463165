package identity

import "strings"

// Services read credentials leniently: they split at any white space, use the first word, remove quotes, or skip
// characters that are not base64. A client could write one credential in many ways, and have a separate limit with
// each. So each credential has one canonical form. Known variants are converted to this form, and all other text is
// malformed.

// A class is a set of bytes.
type class uint8

const (
	// inAPIKey contains the visible ASCII characters, except those that services remove or that end a value.
	inAPIKey class = 1 << iota
	// inBearer contains the characters of inAPIKey, except the equals sign.
	inBearer
	// inCompact contains the characters of a JOSE token: those of base64url, and the dot between parts.
	inCompact
)

// classes holds the classes that contain each byte.
var classes = func() (table [256]class) {
	for c := '!'; c <= '~'; c++ {
		if c == ',' || c == ';' || c == '"' {
			continue
		}
		table[c] = inAPIKey
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

// wantCredential describes valid API keys and bearer tokens, for errors. The errors do not contain the invalid value,
// because it may be a secret.
const wantCredential = "one word of visible ASCII characters, without comma, semicolon and quotes"

// isAPIKey reports whether the text can be an API key. The text must not be empty.
func isAPIKey(s string) bool { return classesOf(s)&inAPIKey != 0 }

// findKey returns the API key. It is looked up once per request. A request with several different keys is malformed,
// because the service may read any of them.
func (a *Attributes) findKey() (string, error) {
	if !a.firstLookup(lookupKey) {
		return a.apiKey, a.keyErr
	}
	key, err := a.rawKey()
	switch {
	case err != nil:
		a.keyErr = err
	case key == "":
	case !isAPIKey(key):
		a.keyErr = malformed("API key", "", wantCredential)
	default:
		a.apiKey = a.identifier.hashIfLong(key)
	}
	return a.apiKey, a.keyErr
}

// rawKey returns the API key as it was sent.
func (a *Attributes) rawKey() (string, error) {
	var key uniqueValue
	if a.identifier.apiKey.lower != "" {
		lines := a.endToEndLines(a.identifier.apiKey)
		if len(lines) == 1 && a.identifier.config.APIKeyQuery == "" {
			return trimBlanks(lines[0]), nil
		}
		for _, line := range lines {
			key.add(trimBlanks(line))
		}
	}
	if a.identifier.config.APIKeyQuery != "" {
		p := a.parameters(a.identifier.config.APIKeyQuery)
		for value, ok := p.next(); ok; value, ok = p.next() {
			key.add(value)
		}
		if p.ambiguous {
			return "", malformed("API key", "",
				"no semicolon, control character or broken escape in it: services read it in different ways")
		}
	}
	if key.differs {
		return "", malformed("API key", "", "one key; there are several that differ")
	}
	return key.value, nil
}

// A uniqueValue is a value that may be given several times, but must be the same each time.
type uniqueValue struct {
	value   string
	differs bool // two values were different
}

// add adds a value. It ignores empty values.
func (a *uniqueValue) add(value string) {
	if a.value == "" {
		a.value = value
	}
	a.differs = a.differs || value != "" && value != a.value
}
