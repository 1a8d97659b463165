package core

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// A Worker is a child process that keeps a contender alive between measurements. It sleeps while it has no request.
type Worker struct {
	Entry      limiters.Entry
	filled     harness.Filling
	Cmd        *exec.Cmd
	requests   io.WriteCloser
	responses  *json.Decoder
	complaints bytes.Buffer
}

// StartWorker starts a worker and waits until its contender has all keys.
func StartWorker(ctx context.Context, e limiters.Entry, quotaName string, keys, picks int) (*Worker, error) {
	cmd, err := harness.ChildCommand(ctx, harness.ChildFlags{
		Mode: harness.ChildServe, Contender: e.Name, Quota: quotaName,
		Keys: keys, Picks: picks,
	})
	if err != nil {
		return nil, err
	}
	return StartWorkerCommand(cmd, e, keys)
}

// StartWorkerCommand starts a worker by a command.
func StartWorkerCommand(cmd *exec.Cmd, e limiters.Entry, keys int) (w *Worker, err error) {
	w = &Worker{Entry: e, Cmd: cmd}
	cmd.Stderr = &w.complaints
	if w.requests, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.Name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", e.Name, err)
	}
	w.responses = json.NewDecoder(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.Name, err)
	}
	if err := w.responses.Decode(&w.filled); err != nil {
		w.dismiss()
		return nil, fmt.Errorf("fill %s with %d keys: %w: %s", e.Name, keys, err, bytes.TrimSpace(w.complaints.Bytes()))
	}
	return w, nil
}

// Do requests one measurement.
func (w *Worker) Do(r Request) (response, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return response{}, err
	}
	if _, err := w.requests.Write(append(line, '\n')); err != nil {
		return response{}, fmt.Errorf("ask %s for %s: %w", w.Entry.Name, r.Do, err)
	}
	var answer response
	if err := w.responses.Decode(&answer); err != nil {
		return response{}, fmt.Errorf("ask %s for %s: %w", w.Entry.Name, r.Do, err)
	}
	if answer.Error != "" {
		return response{}, fmt.Errorf("ask %s for %s: %s", w.Entry.Name, r.Do, answer.Error)
	}
	return answer, nil
}

// dismiss ends the worker and waits for it. Its exit status is ignored, because it has reported its results already.
func (w *Worker) dismiss() {
	w.requests.Close()
	_ = w.Cmd.Wait()
}

// StopAll stops workers.
func StopAll(workers []*Worker) {
	for _, w := range workers {
		w.dismiss()
	}
}
