package gossip

import "strings"

// A logBridge turns log lines of memberlist into events. memberlist reports packets of foreign hosts only in its log.
type logBridge struct{ events *notifier }

// maxDetail is the maximum length of a text that foreign hosts can cause in an event.
const maxDetail = 240

func (b *logBridge) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch level, rest, _ := strings.Cut(text, " "); level {
	case "[DEBUG]", "[INFO]":
	default:
		if kind, reported := classifyLog(rest); !reported {
			b.events.notify(kind, addressIn(rest), shorten(rest))
		}
	}
	return len(line), nil
}

// classifyLog returns the kind of event of an error of memberlist, and whether it was reported already.
func classifyLog(text string) (kind EventKind, reported bool) {
	for _, c := range []struct {
		words    string
		kind     EventKind
		reported bool
	}{
		{words: "ignoring alive message", reported: true},
		{words: "Conflicting address", reported: true},
		{words: "push/pull merge", reported: true},
		{words: "Refuting", reported: true},
		{words: "crypt", kind: WrongKey}, // as in "decrypt" and "encryption"
		{words: "unacceptable label", kind: OtherCluster},
	} {
		if strings.Contains(text, c.words) {
			return c.kind, c.reported
		}
	}
	return NetworkError, false
}

// addressIn returns the sender's address in a log line.
func addressIn(text string) string {
	_, addr, _ := strings.Cut(text, "from=")
	addr, _, _ = strings.Cut(addr, " ")
	return addr
}

func shorten(text string) string {
	text = strings.TrimPrefix(text, "memberlist: ")
	if len(text) > maxDetail {
		text = text[:maxDetail] + "…"
	}
	return strings.ToValidUTF8(text, "?")
}
