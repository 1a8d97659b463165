package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headgate/headgate/server/accesslogs"
)

// The reasons why lines that can be read are not used.
var (
	errNoClient = errors.New("no client")
	errOutlier  = errors.New("its time is far from the times of the lines around it")
	errLate     = errors.New("its time is after the end of the simulation, but later lines are not")
)

const (
	// aheadLines is the number of lines that are read ahead, to see whether the time of a line agrees with theirs.
	aheadLines = 101
	// maxTimeGap is the longest time between two lines that always belong together.
	maxTimeGap = 30 * 24 * time.Hour
)

// A logLine is a line of an access log that can be read and has a client.
type logLine struct {
	at     time.Time
	client string
	place  accesslogs.Line
}

// logLines reads the lines of a log ahead.
type logLines struct {
	reader *accesslogs.Reader
	key    string // the attribute that is the client
	ahead  []logLine
	ended  bool

	request accesslogs.Request // reused
	used    int                // number of lines that were used
	last    time.Time          // time of the line that was used last
}

// fill reads ahead. It returns io.EOF if there are no more lines.
func (l *logLines) fill() error {
	for len(l.ahead) < aheadLines && !l.ended {
		r := &l.request
		switch err := l.reader.Read(r); {
		case errors.Is(err, io.EOF):
			l.ended = true
		case err != nil:
			return err
		case r.Attributes[l.key] == "":
			l.reader.Unread(l.reader.Line(), fmt.Errorf("%w: the line has no %s", errNoClient, l.key))
		default:
			l.ahead = append(l.ahead, logLine{r.Time, r.Attributes[l.key], l.reader.Line()})
		}
	}
	if len(l.ahead) == 0 {
		return io.EOF
	}
	return nil
}

// next returns the next line. fill must have succeeded.
func (l *logLines) next() *logLine { return &l.ahead[0] }

// remove removes the next line, because it is used.
func (l *logLines) remove() {
	l.last, l.used = l.ahead[0].at, l.used+1
	l.ahead = slices.Delete(l.ahead, 0, 1)
}

// skip removes the next line, and counts it as not used.
func (l *logLines) skip(reason error) {
	l.reader.Unread(l.ahead[0].place, reason)
	l.ahead = slices.Delete(l.ahead, 0, 1)
}

// contains reports whether one of the lines that follow the next one has a time for which f returns true.
func (l *logLines) contains(f func(time.Time) bool) bool {
	return slices.ContainsFunc(l.ahead[1:], func(line logLine) bool { return f(line.at) })
}

// isOutlier reports whether the time of the next line is far from that of the line before and from those of most lines
// that follow. If few lines follow, the line before decides.
func (l *logLines) isOutlier() bool {
	at := l.ahead[0].at
	isFar := func(other time.Time) bool { return at.Sub(other).Abs() > maxTimeGap }
	if l.used > 0 && !isFar(l.last) {
		return false
	}
	far := 0
	for _, line := range l.ahead {
		if isFar(line.at) {
			far++
		}
	}
	return 2*far > len(l.ahead) || l.ended && len(l.ahead) < l.used
}
