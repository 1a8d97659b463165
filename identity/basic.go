package identity

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isBasic reports whether the text is one user and password that can be counted by.
func isBasic(text string) bool {
	if len(text) > maxHashed {
		return true // it counts as missing
	}
	plain, ok := decodeBasic(text, make([]byte, 0, 256))
	if ok {
		_, ok = userOf(plain)
	}
	return ok
}

// basicUser returns the user of Authorization: Basic, with a text behind it. The password is not looked at.
func (a *Attributes) basicUser(from, address string) string {
	auth := a.findAuthorization()
	if auth.scheme != schemeBasic || auth.err != nil || len(auth.text) > maxHashed {
		return ""
	}
	plain, ok := decodeBasic(auth.text, make([]byte, 0, 256))
	if !ok {
		return ""
	}
	user, _ := userOf(plain)
	if len(user) == 0 {
		return ""
	}
	return a.id.bound(string(user) + from + address)
}

// decodeBasic decodes base64 with or without padding, and appends it to the buffer. The other alphabet (- and _) is refused:
// Node reads it, Python and PHP skip its two characters.
func decodeBasic(text string, buffer []byte) (plain []byte, ok bool) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "\r\n") { // which the decoder skips
		return nil, false
	}
	plain, err := base64.RawStdEncoding.AppendDecode(buffer, []byte(text))
	return plain, err == nil
}

// userOf returns the user of "user:password". Some services take text without a colon for a user without a password.
func userOf(plain []byte) (user []byte, ok bool) {
	if end := bytes.IndexByte(plain, ':'); end >= 0 {
		plain = plain[:end]
	}
	if !utf8.Valid(plain) { // then it is ISO 8859-1
		text := make([]rune, len(plain))
		for i, c := range plain {
			text[i] = rune(c)
		}
		plain = []byte(string(text))
	}
	plain = bytes.TrimFunc(plain, isSpace)
	return plain, !bytes.ContainsFunc(plain, unicode.IsControl)
}
