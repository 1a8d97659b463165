package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An Event is a change that the service tells of.
type Event struct {
	Namespace string `json:"namespace"`
	Revision  int64  `json:"revision"`
}

// How a stream is kept.
const (
	// silence is how long one may be silent before it counts as broken: the service gives a sign of life every 15 s.
	silence = 45 * time.Second
	// The pauses before it is opened again. The first is by chance as well, for when all nodes lose theirs at once.
	firstPause = 200 * time.Millisecond
	lastPause  = 15 * time.Second
	maxEvent   = 64 << 10
)

var errSilent = errors.New("the rules service gave no sign of life")

// Watch yields the revision of each change of the namespace that nodes should know of, the present one first, until ctx ends or
// the caller stops. When the stream breaks it yields the error and goes on with a new one: it then yields the last event once
// more, which says that the stream is there again, and what came after that.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var last int64
		pause := firstPause
		for ctx.Err() == nil {
			began := time.Now()
			stopped, err := c.watchOnce(ctx, &last, yield)
			if stopped || ctx.Err() != nil || !yield(Event{}, err) {
				return
			}
			if time.Since(began) > lastPause { // it was there for a while
				pause = firstPause
			}
			wait := pause + rand.N(pause)
			var refused *Error
			if errors.As(err, &refused) && refused.RetryAfter > 0 {
				wait = min(refused.RetryAfter, time.Minute) + rand.N(pause)
			}
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// watchOnce yields the events of one stream. It tells whether the caller has stopped, and else why the stream ended.
func (c *Client) watchOnce(ctx context.Context, last *int64, yield func(Event, error) bool) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(c.config.Timeout, func() { cancel(errSilent) })
	defer patience.Stop()
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}
	if *last > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(*last, 10))
	}
	answer, err := c.send(ctx, call{method: http.MethodGet, path: "/v1/watch", header: header})
	if err != nil {
		return false, silentOr(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }() // it has no end to read to
	if media := answer.Header.Get("Content-Type"); !strings.HasPrefix(media, "text/event-stream") {
		return false, fmt.Errorf("GET %s/v1/watch: no stream of events but %q", c.name, media)
	}
	if *last > 0 && !yield(Event{Namespace: c.config.Namespace, Revision: *last}, nil) {
		return true, nil
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	var kind, data string
	for {
		patience.Reset(c.silence)
		if !lines.Scan() {
			err := lines.Err()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("GET %s/v1/watch: %w", c.name, silentOr(ctx, err))
		}
		line := lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if kind == "revision" && data != "" {
				var e Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					return false, fmt.Errorf("GET %s/v1/watch: %w", c.name, err)
				}
				*last = e.Revision
				if !yield(e, nil) {
					return true, nil
				}
			}
			kind, data = "", ""
		case name == "event":
			kind = value
		case name == "data":
			data += value
			if len(data) > maxEvent {
				return false, fmt.Errorf("GET %s/v1/watch: an event of more than %d bytes", c.name, maxEvent)
			}
		}
	}
}

// silentOr returns why a context was canceled here, if it was.
func silentOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}
