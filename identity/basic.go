package identity

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isBasic reports whether the text is an unambiguous user and password.
func isBasic(text string) bool {
	if len(text) > maxHashed {
		return true // basicUser treats it as missing
	}
	plain, ok := decodeBasic(text, make([]byte, 0, 256))
	if ok {
		_, ok = userOf(plain)
	}
	return ok
}

// basicUser returns the user of Authorization: Basic, followed by from and address. The password is not checked.
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

// decodeBasic decodes base64 with or without padding, and appends it to the buffer. The URL alphabet (- and _) is
// refused: Node decodes it, Python and PHP skip its two characters.
func decodeBasic(text string, buffer []byte) (plain []byte, ok bool) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "\r\n") { // the decoder skips them
		return nil, false
	}
	plain, err := base64.RawStdEncoding.AppendDecode(buffer, []byte(text))
	return plain, err == nil
}

// userOf returns the user of "user:password". Like some services, it takes text without a colon for a user without a
// password. It returns false if the user contains control characters.
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
