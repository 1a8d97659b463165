package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// childEnv tells the program that it is a child. Tests need it, whose binary has flags of its own.
const childEnv = "HEADGATE_BENCH_CHILD"

// command returns the command that runs this program as a child.
func command(ctx context.Context, f childFlags) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self,
		"-child", f.mode, "-contender", f.contender, "-quota", f.quota,
		"-keys", strconv.Itoa(f.keys), "-picks", strconv.Itoa(f.picks), "-at", f.at,
		"-seconds", strconv.FormatFloat(f.seconds, 'g', -1, 64), "-target", f.target)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd, nil
}

// ask runs a child to its end and reads the one answer that it prints.
func ask[T any](ctx context.Context, f childFlags) (answer T, err error) {
	cmd, err := command(ctx, f)
	if err != nil {
		return answer, err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	printed, err := cmd.Output()
	if err != nil {
		return answer, fmt.Errorf("%s of %s with %d keys: %w: %s", f.mode, f.contender, f.keys, err, bytes.TrimSpace(complaints.Bytes()))
	}
	if err := json.Unmarshal(printed, &answer); err != nil {
		return answer, fmt.Errorf("%s of %s with %d keys: read answer: %w", f.mode, f.contender, f.keys, err)
	}
	return answer, nil
}

// A worker is a child that keeps a contender alive between measurements. While it is not asked it sleeps.
type worker struct {
	entry      entry
	filled     filling
	cmd        *exec.Cmd
	requests   io.WriteCloser
	responses  *json.Decoder
	complaints bytes.Buffer
}

// hire starts a worker and waits until its contender knows its keys.
func hire(ctx context.Context, e entry, quotaName string, keys, picks int) (*worker, error) {
	cmd, err := command(ctx, childFlags{mode: childServe, contender: e.name, quota: quotaName, keys: keys, picks: picks})
	if err != nil {
		return nil, err
	}
	return employ(cmd, e, keys)
}

// employ starts a worker by a command.
func employ(cmd *exec.Cmd, e entry, keys int) (w *worker, err error) {
	w = &worker{entry: e, cmd: cmd}
	cmd.Stderr = &w.complaints
	if w.requests, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	w.responses = json.NewDecoder(out)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	if err := w.responses.Decode(&w.filled); err != nil {
		w.dismiss()
		return nil, fmt.Errorf("fill %s with %d keys: %w: %s", e.name, keys, err, bytes.TrimSpace(w.complaints.Bytes()))
	}
	return w, nil
}

// do asks for one measurement.
func (w *worker) do(r request) (response, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return response{}, err
	}
	if _, err := w.requests.Write(append(line, '\n')); err != nil {
		return response{}, fmt.Errorf("ask %s for %s: %w", w.entry.name, r.Do, err)
	}
	var answer response
	if err := w.responses.Decode(&answer); err != nil {
		return response{}, fmt.Errorf("ask %s for %s: %w", w.entry.name, r.Do, err)
	}
	if answer.Error != "" {
		return response{}, fmt.Errorf("ask %s for %s: %s", w.entry.name, r.Do, answer.Error)
	}
	return answer, nil
}

// dismiss ends the worker and waits for it. What it measured is told already, so how it ends does not matter.
func (w *worker) dismiss() {
	w.requests.Close()
	_ = w.cmd.Wait()
}

// dismissAll ends workers.
func dismissAll(workers []*worker) {
	for _, w := range workers {
		w.dismiss()
	}
}
