package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// maxLine is the maximum length of a log line in bytes.
const maxLine = 1000

// lineOverhead is an estimate of the bytes of a line besides its message and attributes: time, level and punctuation.
const lineOverhead = 100

// shortLines is a slog.Handler that keeps lines within maxLine. It cuts the longest texts until the line fits, and ends
// each cut text with the number of bytes that were left out.
type shortLines struct {
	slog.Handler
	attrsSize int // size of the attributes and groups added with WithAttrs and WithGroup
}

var _ slog.Handler = shortLines{}

// Handle writes a record.
func (h shortLines) Handle(ctx context.Context, r slog.Record) error {
	size := lineOverhead + h.attrsSize + encodedSize(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		size += sizeOf(a)
		return true
	})
	if size <= maxLine {
		return h.Handler.Handle(ctx, r)
	}
	attrs := make([]slog.Attr, 0, r.NumAttrs())
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	texts := make([]string, 1, len(attrs)+1) // the message, then the attributes
	texts[0] = r.Message
	for _, a := range attrs {
		texts = append(texts, textOf(a.Value))
	}
	cutToFit(texts, maxLine-(size-sizesOf(texts)))
	short := slog.NewRecord(r.Time, r.Level, texts[0], r.PC)
	for i, a := range attrs {
		if text := texts[i+1]; text != textOf(a.Value) {
			a.Value = slog.StringValue(text)
		}
		short.AddAttrs(a)
	}
	return h.Handler.Handle(ctx, short)
}

// WithAttrs returns a handler that adds attributes to each line.
func (h shortLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.attrsSize += sizeOf(a)
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

// WithGroup returns a handler that puts attributes into a group.
func (h shortLines) WithGroup(name string) slog.Handler {
	h.attrsSize += len(name) + 8
	h.Handler = h.Handler.WithGroup(name)
	return h
}

const (
	minText = 32 // bytes of a text that are never cut
	cutNote = 16 // size of the note at the end of a cut text, in bytes
)

// cutToFit cuts the longest texts until all texts together have at most room bytes, or until none can be cut further.
func cutToFit(texts []string, room int) {
	for sizesOf(texts) > room {
		longest := 0
		for i := range texts {
			if encodedSize(texts[i]) > encodedSize(texts[longest]) {
				longest = i
			}
		}
		size := encodedSize(texts[longest])
		if size <= minText+cutNote {
			return
		}
		// Remove at most a quarter of the text in one step, and no more than necessary. Several long texts then end up
		// with similar lengths.
		texts[longest] = cutTo(texts[longest], max(minText, min(size*3/4, size-(sizesOf(texts)-room))))
	}
}

// cutTo returns the start of a text with a note of the number of omitted bytes. The result has at most size bytes in
// JSON.
func cutTo(text string, size int) string {
	text = strings.ToValidUTF8(text, "\uFFFD") // otherwise the loop would cut everything after an invalid byte
	keep := min(len(text), size)
	for keep > 0 && (encodedSize(text[:keep]) > size-cutNote || !utf8.ValidString(text[:keep])) {
		keep -= max(1, keep/64)
	}
	return fmt.Sprintf("%s… (+%d B)", text[:keep], len(text)-keep)
}

func sizesOf(texts []string) (size int) {
	for _, text := range texts {
		size += encodedSize(text)
	}
	return size
}

// sizeOf returns the size of an attribute in a line.
func sizeOf(a slog.Attr) int {
	switch a.Value.Kind() {
	case slog.KindString:
		return len(a.Key) + 4 + encodedSize(a.Value.String())
	case slog.KindInt64, slog.KindUint64, slog.KindFloat64, slog.KindBool:
		return len(a.Key) + 4 + maxNumber
	default:
		return len(a.Key) + 4 + encodedSize(textOf(a.Value))
	}
}

// maxNumber is the maximum size of a number in a line.
const maxNumber = 24

// encodedSize returns the size of a text in JSON, without quotes.
func encodedSize(text string) int {
	for i := 0; ; i++ {
		if i == len(text) {
			return len(text)
		}
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			break
		}
	}
	data, err := json.Marshal(text)
	if err != nil { // it never fails for a string
		return 6 * len(text)
	}
	return len(data) - 2
}

// textOf returns a value approximately as it appears in a line.
func textOf(v slog.Value) string {
	v = v.Resolve()
	if v.Kind() == slog.KindAny {
		if err, ok := v.Any().(error); ok {
			return err.Error()
		}
		if data, err := json.Marshal(v.Any()); err == nil {
			return string(data)
		}
	}
	return v.String()
}
