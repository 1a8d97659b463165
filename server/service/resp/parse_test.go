package resp

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// slowly parses one byte after the other, without any optimization: it returns
// the commands in a text, and its error, if any.
func slowly(s sizeLimits, input string) (commands [][]string, bad string) {
	for input != "" {
		args, rest, wrong, more := slowCommand(s, input)
		switch {
		case wrong != "":
			return commands, wrong
		case more:
			return commands, ""
		}
		if len(args) > 0 {
			commands = append(commands, args)
		}
		input = rest
	}
	return commands, ""
}

func slowCommand(s sizeLimits, input string) (args []string, rest, bad string, more bool) {
	if !strings.HasPrefix(input, "*") {
		return slowLine(s, input)
	}
	size := func(left string) int { return len(input) - len(left) }
	count, left, bad, more := slowNumber(input[1:], string(errCount))
	if bad != "" || more {
		return nil, "", bad, more
	}
	if count > s.args {
		return nil, "", string(errCount), false
	}
	for range max(count, 0) {
		if left == "" {
			return nil, "", slowFits(s, size(left)), true
		}
		if left[0] != '$' {
			shown := left[:1]
			if shown[0] < ' ' || shown[0] > '~' {
				shown = "?"
			}
			return nil, "", "expected '$', got '" + shown + "'", false
		}
		before := left
		n, after, bad, more := slowNumber(left[1:], string(errBulk))
		if bad == "" && !more && (n < 0 || n > s.bulk) {
			bad = string(errBulk)
		}
		if bad != "" || more {
			if more {
				bad = slowFits(s, size(before))
			}
			return nil, "", bad, more
		}
		if len(after) < n+2 {
			return nil, "", slowFits(s, size(after)+n+2), true
		}
		if after[n:n+2] != "\r\n" {
			return nil, "", string(errBulkEnd), false
		}
		args, left = append(args, after[:n]), after[n+2:]
	}
	return args, left, slowFits(s, size(left)), false
}

func slowFits(s sizeLimits, n int) string {
	if n > s.command {
		return string(errTooLong)
	}
	return ""
}

// slowNumber reads a line that is a number.
func slowNumber(input, wrong string) (n int, rest, bad string, more bool) {
	line, rest, whole := strings.Cut(input, "\r\n")
	digits := strings.TrimPrefix(line, "-")
	if !whole {
		digits = strings.TrimSuffix(digits, "\r")
		if digits == "" {
			if strings.HasSuffix(line, "\r") {
				return 0, "", wrong, false
			}
			return 0, "", "", true
		}
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(line)-b2i(!whole && strings.HasSuffix(line, "\r")) > 9 {
		return 0, "", wrong, false
	}
	if !whole {
		return 0, "", "", true
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return 0, "", wrong, false
	}
	return n, rest, "", false
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// slowLine reads a line of words.
func slowLine(s sizeLimits, input string) (args []string, rest, bad string, more bool) {
	line, rest, whole := strings.Cut(input, "\n")
	if len(line) > s.inline {
		return nil, "", string(errInline), false
	}
	if !whole {
		return nil, "", "", true
	}
	line = strings.TrimSuffix(line, "\r")
	for {
		line = strings.TrimLeft(line, " \t\n\v\f\r\x00")
		if line == "" {
			return args, rest, "", false
		}
		if len(args) == s.args {
			return nil, "", string(errCount), false
		}
		end := strings.IndexAny(line, " \t\n\v\f\r\x00\"'")
		if end < 0 {
			end = len(line)
		}
		word := line[:end]
		line = line[end:]
		if line != "" && (line[0] == '"' || line[0] == '\'') {
			quoted, behind, ok := slowQuote(line)
			if !ok || behind != "" && !strings.ContainsRune(" \t\n\v\f\r\x00", rune(behind[0])) {
				return nil, "", string(errQuotes), false
			}
			word, line = word+quoted, behind
		}
		if len(word) > s.bulk {
			return nil, "", string(errBulk), false
		}
		args = append(args, word)
	}
}

func slowQuote(line string) (text, behind string, ok bool) {
	double := line[0] == '"'
	escapes := map[byte]string{'n': "\n", 'r': "\r", 't': "\t", 'b': "\b", 'a': "\a"}
	for i := 1; i < len(line); {
		switch left := line[i:]; {
		case left[0] == line[0]:
			return text, left[1:], true
		case double && len(left) >= 4 && left[:2] == `\x` && hexadecimal(left[2]) && hexadecimal(left[3]):
			n, _ := strconv.ParseUint(left[2:4], 16, 8)
			text += string([]byte{byte(n)})
			i += 4
		case double && left[0] == '\\' && len(left) > 1:
			if meant, ok := escapes[left[1]]; ok {
				text += meant
			} else {
				text += left[1:2]
			}
			i += 2
		case !double && strings.HasPrefix(left, `\'`):
			text += "'"
			i += 2
		default:
			text += left[:1]
			i++
		}
	}
	return "", "", false
}

func hexadecimal(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// quickly returns the same with parse, in pieces of n bytes.
func quickly(s sizeLimits, input string, piece int) (commands [][]string, bad string) {
	var buffer []byte
	for input != "" {
		n := min(max(piece, 1), len(input))
		buffer, input = append(buffer, input[:n]...), input[n:]
		for {
			args, size, err := s.parse(buffer, nil)
			if err != nil {
				var found protocolError
				if !errors.As(err, &found) {
					panic(err)
				}
				return commands, string(found)
			}
			if size == 0 {
				break
			}
			if len(args) > 0 {
				var texts []string
				for _, a := range args {
					texts = append(texts, string(a))
				}
				commands = append(commands, texts)
			}
			buffer = slices.Clone(buffer[size:])
		}
	}
	return commands, ""
}

var fuzzSeeds = []string{
	"", "\r\n", "\n", "PING\r\n", "PING\n", "  PING  a\tb \r\n", "ECHO \"a\\x41\\n\\\"\" 'b\\'c'\r\n", "ECHO a\"b\"\r\n", "ECHO \"a\"b\r\n", "ECHO \"\r\n",
	"*1\r\n$4\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*0\r\n", "*-1\r\n", "*-10\r\nPING\r\n", "*1\r\n", "*1\r", "*", "*\r\n", "*-\r\n", "*1\n", "*x\r\n",
	"*1\r\n$-1\r\n", "*1\r\n$4\r\nPINGxx", "*1\r\n$4\r\nPI", "*1\r\n:4\r\n", "*1\r\n$99999999999\r\n", "*99999999999\r\n", "*1\r\n$65\r\n", "*9\r\n",
	"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\na\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\nPING\r\n", strings.Repeat("x", 65), strings.Repeat("x", 65) + "\n",
	"*3\r\n" + strings.Repeat("$60\r\n"+strings.Repeat("y", 60)+"\r\n", 3), "\x00\xff\x00\n", "*1\r\n\xff",
	"*8\r\n" + strings.Repeat("$0\r\n\r\n", 8), "a b c d e f g h i\n", "POST / HTTP/1.1\r\nHost: x\r\n\r\n", "*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
}

// tight are limits that random input reaches.
var tight = sizeLimits{inline: 64, args: 8, bulk: 64, command: 128}

func FuzzParseMatchesSlowParser(f *testing.F) {
	for i, seed := range fuzzSeeds {
		f.Add([]byte(seed), i%7)
	}
	f.Fuzz(func(t *testing.T, input []byte, piece int) {
		want, wantBad := slowly(tight, string(input))
		got, gotBad := quickly(tight, string(input), len(input))
		if !equal(got, want) || gotBad != wantBad {
			t.Errorf("%q: got %q, %q, want %q, %q", input, got, gotBad, want, wantBad)
		}
		// However a text is split into pieces, its commands are the same, and an error is found at the same place. The
		// error itself may differ if a text is too long in two ways.
		got, gotBad = quickly(tight, string(input), piece)
		if !equal(got, want) || (gotBad == "") != (wantBad == "") {
			t.Errorf("%q in pieces of %d: got %q, %q, want %q, %q", input, piece, got, gotBad, want, wantBad)
		}
	})
}

func equal(a, b [][]string) bool { return slices.EqualFunc(a, b, slices.Equal[[]string]) }

func TestParseWaitsForACompleteCommand(t *testing.T) {
	whole := []byte("*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n")
	for n := range whole {
		_, size, err := tight.parse(bytes.Clone(whole[:n]), nil)
		if size != 0 || err != nil {
			t.Errorf("%q: got %d bytes, %v, want 0", whole[:n], size, err)
		}
	}
	if _, size, err := tight.parse(whole, nil); size != len(whole) || err != nil {
		t.Errorf("%q: got %d bytes, %v, want %d", whole, size, err, len(whole))
	}
}

func TestIntegersAreReadAsRedisDoes(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1": "1", "-1": "-1", "42": "42", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808",
		"9223372036854775808": "", "-9223372036854775809": "", "18446744073709551617": "", "99999999999999999999": "", "": "", "-": "", "+1": "", " 1": "", "1 ": "",
		"01": "", "-0": "", "-01": "", "1e3": "", "0x1": "", "1.0": "", "½": "", "123456789012345678901": "",
	} {
		got := ""
		if n, ok := readInt([]byte(text)); ok {
			got = fmt.Sprint(n)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
