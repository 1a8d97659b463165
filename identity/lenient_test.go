package identity

import (
	"encoding/base64"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// The functions here read a credential as services do. Each returns "" if it finds none. Header values are text in
// ISO 8859-1 to them, as in Node and WSGI.

func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func jsSpace(r rune) bool {
	return r >= '\t' && r <= '\r' || r == '\ufeff' || r != 0x85 && unicode.IsSpace(r)
}

func pythonSpace(r rune) bool { return r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) }

func javaSpace(r rune) bool { return r <= ' ' }

// behind returns the second word if the first is the scheme.
func behind(scheme string, words []string) string {
	if len(words) > 1 && strings.EqualFold(words[0], scheme) {
		return words[1]
	}
	return ""
}

// after returns the text behind the first occurrence of the mark.
func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}

// cut returns the text from there on if the rest begins with the scheme.
func cut(s, scheme string) string {
	if len(s) > len(scheme) && strings.EqualFold(s[:len(scheme)], scheme) {
		return s[len(scheme)+1:]
	}
	return ""
}

var (
	anywhere    = regexp.MustCompile(`(?i)bearer[\s\x{a0}]+([^\s\x{a0}]+)`)
	railsScheme = regexp.MustCompile(`^(Token|Bearer)\s+`)
)

var bearerServices = map[string]func(string) string{
	"split(' ')[1]":  func(s string) string { return behind("Bearer", strings.Split(s, " ")) },
	"split(/\\s+/)":  func(s string) string { return behind("Bearer", strings.FieldsFunc(s, jsSpace)) },
	"Python split":   func(s string) string { return behind("Bearer", strings.FieldsFunc(s, pythonSpace)) },
	"slice(7).trim":  func(s string) string { return strings.TrimFunc(cut(s, "Bearer"), jsSpace) },
	"replace":        func(s string) string { return strings.TrimFunc(strings.Replace(s, "Bearer ", "", 1), jsSpace) },
	"split(Bearer )": func(s string) string { return after(s, "Bearer ") },
	"a regexp": func(s string) string {
		if m := anywhere.FindStringSubmatch(s); m != nil {
			return m[1]
		}
		return ""
	},
	"the part before a comma": func(s string) string {
		first, _, _ := strings.Cut(s, ",")
		return behind("Bearer", strings.Fields(first))
	},
	"Rails": func(s string) string {
		if !railsScheme.MatchString(s) {
			return ""
		}
		for _, part := range strings.FieldsFunc(railsScheme.ReplaceAllString(s, ""), func(r rune) bool { return strings.ContainsRune(",;\t", r) }) {
			return strings.Trim(strings.TrimPrefix(part, "token="), `"`)
		}
		return ""
	},
}

// looseBase64 decodes as Node does: both alphabets, other characters are skipped, the text ends at an equals sign.
func looseBase64(s string) string {
	s, _, _ = strings.Cut(s, "=")
	return discardingBase64(strings.NewReplacer("-", "+", "_", "/").Replace(s))
}

// discardingBase64 decodes as Python and PHP do: other characters are skipped.
func discardingBase64(s string) string {
	s = strings.Map(func(r rune) rune {
		if !strings.ContainsRune(base64URL+"+/", r) || r == '-' || r == '_' {
			return -1
		}
		return r
	}, s)
	if len(s)%4 == 1 {
		s = s[:len(s)-1]
	}
	plain, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(plain)
}

var basicServices = map[string]func(string) string{
	"Node": func(s string) string { return looseBase64(behind("Basic", strings.FieldsFunc(s, jsSpace))) },
	"Node, by split(Basic )": func(s string) string {
		return looseBase64(after(s, "Basic "))
	},
	"Python": func(s string) string { return discardingBase64(behind("Basic", strings.FieldsFunc(s, pythonSpace))) },
	"PHP":    func(s string) string { return discardingBase64(cut(s, "Basic")) },
}

func basicUserOf(pair string) string {
	user, _, _ := strings.Cut(pair, ":")
	return strings.TrimFunc(user, pythonSpace)
}

var keyServices = map[string]func(string) string{
	"as it is":   func(s string) string { return s },
	"JavaScript": func(s string) string { return strings.TrimFunc(s, jsSpace) },
	"Python":     func(s string) string { return strings.TrimFunc(s, pythonSpace) },
	"Java":       func(s string) string { return strings.TrimFunc(s, javaSpace) },
	"first word": func(s string) string {
		return strings.Join(strings.FieldsFunc(s, jsSpace)[:min(1, len(strings.FieldsFunc(s, jsSpace)))], "")
	},
	"first of a list": func(s string) string {
		first, _, _ := strings.Cut(s, ",")
		return strings.TrimFunc(first, jsSpace)
	},
	"until a NUL": func(s string) string {
		first, _, _ := strings.Cut(s, "\x00")
		return first
	},
	"without quotes": func(s string) string { return strings.Trim(s, `"`) },
}

// cookieServices return the values of the cookie s, in order.
var cookieServices = map[string]func(string) []string{
	"Node": func(line string) (found []string) {
		for part := range strings.SplitSeq(line, ";") {
			name, value, ok := strings.Cut(part, "=")
			if !ok || strings.TrimFunc(name, jsSpace) != "s" {
				continue
			}
			if value = strings.TrimFunc(value, jsSpace); strings.HasPrefix(value, `"`) && len(value) > 1 {
				value = value[1 : len(value)-1]
			}
			if plain, err := url.PathUnescape(value); err == nil {
				value = plain
			}
			found = append(found, value)
		}
		return found
	},
	"Django": func(line string) (found []string) {
		for part := range strings.SplitSeq(line, ";") {
			name, value, ok := strings.Cut(part, "=")
			if !ok || strings.TrimFunc(name, pythonSpace) != "s" {
				continue
			}
			if value = strings.TrimFunc(value, pythonSpace); len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = unquotePython(value[1 : len(value)-1])
			}
			found = append(found, value)
		}
		return found
	},
}

var pythonEscape = regexp.MustCompile(`\\(?:([0-3][0-7][0-7])|(.))`)

func unquotePython(s string) string {
	return pythonEscape.ReplaceAllStringFunc(s, func(m string) string {
		if len(m) == 4 {
			return string(rune((m[1]-'0')<<6 | (m[2]-'0')<<3 | (m[3] - '0')))
		}
		return m[1:]
	})
}

// counted is how a request is counted by an attribute: its value, "-" for none, or "refused".
func counted(t *testing.T, id *Identifier, header, line, name string) string {
	t.Helper()
	var a Attributes
	r := request("192.0.2.1:1", "/")
	r.Header[header] = []string{line}
	id.Read(r, &a)
	if a.Validate() != nil || a.Repeats(attr(t, name)) {
		return "refused"
	}
	return value(t, &a, name)
}

const (
	aliceToken = "tok-alice"
	aliceJWT   = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.q-Zr2cXk8B9pYc0Vb1s4fQmDzGZ0n1a2Wd3Ue4Tf5Rw"
	aliceBasic = "YWxpY2U6cGFzczpfPz8"
)

func checkBearer(t *testing.T, id *Identifier, line string) {
	t.Helper()
	for service, read := range bearerServices {
		for _, token := range []string{aliceToken, aliceJWT} {
			if !sameToken(read(latin1(line)), token) {
				continue
			}
			for _, name := range []string{"bearer", "header.authorization"} {
				got, want := counted(t, id, "Authorization", line, name), counted(t, id, "Authorization", "Bearer "+token, name)
				if got != want && got != "refused" && (strings.Contains(strings.ToLower(line), "bearer") || got != "-" && name == "bearer") {
					t.Errorf("Authorization: %q is %s to %s: %s = %s, want %s or a refusal", line, token, service, name, got, want)
				}
			}
		}
	}
}

// sameToken reports whether a service that decodes signatures with Python's base64 takes the text for the token.
func sameToken(text, token string) bool {
	at := strings.LastIndexByte(token, '.') + 1
	if at == 0 || len(text) < at || text[:at] != token[:at] || strings.Contains(text[at:], ".") {
		return text == token
	}
	replace := strings.NewReplacer("-", "+", "_", "/")
	return discardingBase64(replace.Replace(text[at:])) == discardingBase64(replace.Replace(token[at:]))
}

func checkBasic(t *testing.T, id *Identifier, line string) {
	t.Helper()
	for service, read := range basicServices {
		pair := read(latin1(line))
		if basicUserOf(pair) != "alice" {
			continue
		}
		if got := counted(t, id, "Authorization", line, "user"); got != "alice" && got != "refused" {
			t.Errorf("Authorization: %q is %q to %s: user = %s, want alice or a refusal", line, pair, service, got)
		}
	}
}

func checkKey(t *testing.T, id *Identifier, line string) {
	t.Helper()
	for service, read := range keyServices {
		if read(latin1(line)) != aliceToken {
			continue
		}
		if got := counted(t, id, "X-Api-Key", line, "api_key"); got != aliceToken && got != "refused" {
			t.Errorf("X-API-Key: %q is %s to %s: api_key = %s", line, aliceToken, service, got)
		}
	}
}

func checkCookie(t *testing.T, id *Identifier, line string) {
	t.Helper()
	for service, read := range cookieServices {
		found := read(latin1(line))
		if len(found) == 0 || found[0] != "alice" && found[len(found)-1] != "alice" {
			continue
		}
		if got := counted(t, id, "Cookie", line, "cookie.s"); got != "alice" && got != "refused" {
			t.Errorf("Cookie: %q is %q to %s: cookie.s = %s, want alice or a refusal", line, found, service, got)
		}
	}
}

func checkLenient(t *testing.T, id *Identifier, line string) {
	t.Helper()
	line = trimBlanks(line)
	if len(line) > 4096 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return // which no server accepts in a header
	}
	checkBearer(t, id, line)
	checkBasic(t, id, line)
	checkKey(t, id, line)
	checkCookie(t, id, line)
}

var lenientSeeds = []string{
	"Bearer " + aliceToken, "Bearer " + aliceJWT, "Basic " + aliceBasic, aliceToken, "s=alice", `s="alice"; s=bob`,
	"Bearer " + aliceToken + " x1", "Bearer " + aliceToken + ",x", "Bearer " + aliceToken + ";x", "Bearer\t" + aliceToken,
	"Bearer\xa0" + aliceToken, "bearer   " + aliceToken, "x Bearer " + aliceToken, "xBearer " + aliceToken, "tok-Bearer alice",
	`Bearer token="` + aliceToken + `"`, "Bearer token=" + aliceToken, "Bearer " + aliceJWT + "=", "Bearer " + aliceJWT + "!",
	"Bearer " + strings.TrimSuffix(aliceJWT, "w") + "x", "Basic\t" + aliceBasic, "Basic " + aliceBasic + "==", "Basic " + aliceBasic + "=",
	"Basic YWxp!Y2U6cGFzczpfPz8=", "Basic YWxpY2U6cGFzczpfPz8=x", "Basic YWxpY2U6cGFzczpfPz8=", "Basic YWxpY2U6cGFzczpfPz_", "Basic YWxpY2U",
	"Basic IGFsaWNlOnBhc3M=", aliceToken + "\xa0", "\x85" + aliceToken, aliceToken + "\u00a0", aliceToken + " x", aliceToken + ",x",
	aliceToken + "\x00x", `"` + aliceToken + `"`, `s="alicex`, `s="\141lice"`, "s=%61lice", "\xa0s=alice; s=bob", "s=alice\xa0", "s=alice\x01",
}

// Every text that a service takes for one client's credential is that client's here, or is refused: it is never the key
// to a fresh limit.
func TestLenientServicesSeeTheSameClient(t *testing.T) {
	id := newID(t, Config{UserFrom: []UserSource{UserFromBasic}})
	for _, seed := range lenientSeeds {
		checkLenient(t, id, seed)
	}
	random := rand.New(rand.NewPCG(1, 2))
	odd := []string{
		" ", "\t", "\xa0", "\x85", "\u00a0", "\ufeff", "\x00", "\x1c", "\v", ",", ";", "=", `"`, `\`, "%", "%20", "%61", "x", ":", "-", "_", "!", "Bearer ", "Basic ",
		"bearer\t", "token=", "s=", "s=x; ", "\\141", "\xff",
	}
	for range 30_000 {
		line := lenientSeeds[random.IntN(len(lenientSeeds))]
		for range 1 + random.IntN(3) {
			at, n := random.IntN(len(line)+1), 0
			if random.IntN(4) == 0 && at < len(line) {
				n = 1
			}
			line = line[:at] + odd[random.IntN(len(odd))] + line[at+n:]
		}
		checkLenient(t, id, line)
		if t.Failed() {
			t.FailNow()
		}
	}
}

func FuzzLenientServices(f *testing.F) {
	for _, seed := range lenientSeeds {
		f.Add(seed)
	}
	id := newID(f, Config{UserFrom: []UserSource{UserFromBasic}})
	f.Fuzz(func(t *testing.T, line string) { checkLenient(t, id, line) })
}
