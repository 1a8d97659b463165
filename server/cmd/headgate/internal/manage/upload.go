package manage

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/internal/terminal"
)

// An upload reads a file that is being sent, and shows the progress: the number of bytes that were read and, after the
// last one, what the receiver does.
type upload struct {
	from io.Reader
	size int64  // in bytes; 0 if unknown
	then string // what the receiver does after it has received the file, such as "restoring it"

	read  atomic.Int64
	ended atomic.Bool
}

// newUpload returns an upload of a file or another reader.
func newUpload(from io.Reader, then string) *upload {
	u := &upload{from: from, then: then}
	if f, ok := from.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			u.size = info.Size()
		}
	}
	return u
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.from.Read(p)
	u.read.Add(int64(n))
	if err != nil {
		u.ended.Store(true)
	}
	return n, err
}

// text returns the line of progress.
func (u *upload) text(elapsed time.Duration) string {
	took := elapsed.Round(100 * time.Millisecond)
	if u.ended.Load() {
		return fmt.Sprintf("sent %s, %s, %v", megabytes(u.read.Load()), u.then, took)
	}
	if u.size > 0 {
		return fmt.Sprintf("sent %s of %s, %v", megabytes(u.read.Load()), megabytes(u.size), took)
	}
	return fmt.Sprintf("sent %s, %v", megabytes(u.read.Load()), took)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// show shows the progress on w until stop is called. On a terminal, it updates one line. Otherwise it writes a line
// every few seconds.
func (u *upload) show(w io.Writer) (stop func()) {
	every, terminal := logProgressEvery, terminal.IsCharDevice(w)
	if terminal {
		every = terminalProgressEvery
	}
	start, done := time.Now(), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if terminal {
					_, _ = io.WriteString(w, "\r\x1b[K")
				}
				return
			case <-tick.C:
				output.WriteProgress(w, terminal, u.text(time.Since(start)))
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
	}
}
