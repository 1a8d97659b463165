package headgate

import (
	"log/slog"
	"strconv"
	"time"
)

// String returns the limit in the form that ParseLimit reads. If the limit is valid, ParseLimit returns the same limit.
func (l Limit) String() string {
	b := make([]byte, 0, 48)
	b = strconv.AppendInt(b, l.Count, 10)
	if l.Algorithm == Concurrency {
		b = append(b, " concurrent"...)
	} else {
		b = append(b, '/')
		period := formatPeriod(l.Period)
		if _, isUnit := unitSize(period[1:]); isUnit && period[0] == '1' {
			period = period[1:] // "10/s", not "10/1s"
		}
		b = append(b, period...)
		if l.Algorithm != TokenBucket {
			b = append(b, ' ')
			b = append(b, l.Algorithm.String()...)
		}
	}
	if l.Buckets != 0 {
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(l.Buckets), 10)
	}
	if l.Staggered {
		b = append(b, " staggered"...)
	}
	if l.Burst != 0 {
		b = append(b, " burst "...)
		b = strconv.AppendInt(b, l.Burst, 10)
	}
	if l.TTL != 0 {
		b = append(b, " ttl "...)
		b = append(b, formatPeriod(l.TTL)...)
	}
	return string(b)
}

// formatPeriod returns a duration in the largest unit that divides it: 90s, 7d, 1s.
func formatPeriod(d time.Duration) string {
	for _, u := range units {
		if d >= u.size && d%u.size == 0 {
			return strconv.FormatInt(int64(d/u.size), 10) + u.name
		}
	}
	return d.String()
}

// MarshalText returns the limit as String does, or an error if it is not valid.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText parses a limit as ParseLimit does.
func (l *Limit) UnmarshalText(text []byte) error { return l.Set(string(text)) }

// LogValue returns the limit as text. It implements [slog.LogValuer]. Log a Limit, not a *Limit: for a nil *Limit, slog
// logs a panic instead of a value.
func (l Limit) LogValue() slog.Value { return slog.StringValue(l.String()) }

// Set parses a limit as ParseLimit does. With String it implements [flag.Value].
func (l *Limit) Set(text string) error {
	parsed, err := ParseLimit(text)
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
