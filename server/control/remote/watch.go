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

// An Event reports a new revision of a namespace.
type Event struct {
	Namespace string `json:"namespace"`
	Revision  int64  `json:"revision"`
}

// The timing of a stream.
const (
	// streamSilence is the time without data after which a stream fails. The service sends a keep-alive every 15 s.
	streamSilence = 45 * time.Second
	// The pause before a reconnect doubles from minPause to maxPause. A random time is added, so that nodes that lose
	// their streams together do not reconnect together.
	minPause = 200 * time.Millisecond
	maxPause = 15 * time.Second
	maxEvent = 64 << 10 // in bytes
)

var errTimeout = errors.New("no data from the rules service")

// Watch yields the current revision of the namespace, then the revision of each change of an object for nodes, until
// ctx ends or the caller stops. When the stream fails, Watch yields the error and reconnects. After that, it yields the
// last event again, to report that the stream works, and then all later events.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var last int64
		pause := minPause
		for ctx.Err() == nil {
			started := time.Now()
			stopped, err := c.watchOnce(ctx, &last, yield)
			if stopped || ctx.Err() != nil || !yield(Event{}, err) {
				return
			}
			if time.Since(started) > maxPause { // the stream was healthy
				pause = minPause
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
			pause = min(2*pause, maxPause)
		}
	}
}

// watchOnce yields the events of one stream. If the caller stops, stopped is true. Otherwise err is why the stream
// ended. last points to the last revision that was yielded, 0 if there is none.
func (c *Client) watchOnce(ctx context.Context, last *int64, yield func(Event, error) bool) (stopped bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.config.Timeout, func() { cancel(errTimeout) })
	defer timer.Stop()
	header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-store"}}
	if *last > 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(*last, 10))
	}
	response, err := c.send(ctx, apiCall{method: http.MethodGet, path: "/v1/watch", header: header})
	if err != nil {
		return false, timeoutOr(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if media := response.Header.Get("Content-Type"); !strings.HasPrefix(media, "text/event-stream") {
		return false, fmt.Errorf("GET %s/v1/watch: want an event stream, got %q", c.name, media)
	}
	if *last > 0 && !yield(Event{Namespace: c.config.Namespace, Revision: *last}, nil) {
		return true, nil
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 0, 4<<10), maxEvent)
	var kind, data string
	for {
		timer.Reset(c.streamSilence)
		if !lines.Scan() {
			err := lines.Err()
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("GET %s/v1/watch: %w", c.name, timeoutOr(ctx, err))
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
				return false, fmt.Errorf("GET %s/v1/watch: event longer than %d bytes", c.name, maxEvent)
			}
		}
	}
}

// timeoutOr returns errTimeout if a timer has canceled ctx with it, otherwise err.
func timeoutOr(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return errTimeout
	}
	return err
}
