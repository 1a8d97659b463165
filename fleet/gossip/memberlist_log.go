package gossip

import "strings"

// A logBridge makes events of what memberlist logs, since it reports what strangers send in no other way.
type logBridge struct{ events *notifier }

// maxDetail keeps short what strangers can have written into an event.
const maxDetail = 240

func (b *logBridge) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	switch level, rest, _ := strings.Cut(text, " "); level {
	case "[DEBUG]", "[INFO]":
	default:
		if kind, told := classify(rest); !told {
			b.events.notify(kind, from(rest), shorten(rest))
		}
	}
	return len(line), nil
}

// classify says what kind of event an error of memberlist is, and whether it was told already.
func classify(text string) (kind EventKind, told bool) {
	for _, c := range []struct {
		words string
		kind  EventKind
		told  bool
	}{
		{words: "ignoring alive message", told: true},
		{words: "Conflicting address", told: true},
		{words: "push/pull merge", told: true},
		{words: "Refuting", told: true},
		{words: "ecrypt", kind: WrongKey}, // also "encrypt"
		{words: "ncrypt", kind: WrongKey},
		{words: "unacceptable label", kind: OtherCluster},
	} {
		if strings.Contains(text, c.words) {
			return c.kind, c.told
		}
	}
	return Trouble, false
}

// from returns the address that memberlist says a packet is from.
func from(text string) string {
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
