package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// calls are the texts with which Write was called.
type calls []string

func (c *calls) Write(b []byte) (int, error) {
	*c = append(*c, string(b))
	return len(b), nil
}

func TestBatchIsOneWrite(t *testing.T) {
	var got calls
	w := NewLineWriter(&got)
	fmt.Fprintln(w, "first")
	w.Batch(func() {
		fmt.Fprintln(w, "second")
		fmt.Fprintln(w, "third")
	})
	w.Batch(func() {})
	fmt.Fprintln(w, "fourth")
	if want := (calls{"first\n", "second\nthird\n", "fourth\n"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBatchHoldsABoundedAmount(t *testing.T) {
	var got calls
	w := NewLineWriter(&got)
	line := strings.Repeat("x", 999) + "\n"
	w.Batch(func() {
		for range 200 {
			fmt.Fprint(w, line)
		}
	})
	size := 0
	for _, text := range got {
		size += len(text)
		if len(text) > maxBatch+len(line) {
			t.Errorf("a write of %d bytes, want about %d at most", len(text), maxBatch)
		}
	}
	if size != 200*len(line) {
		t.Errorf("%d bytes were written, want %d", size, 200*len(line))
	}
}

func TestLinesOfConcurrentBatchesStayWhole(t *testing.T) {
	var got calls
	w := NewLineWriter(&got)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 100 {
				w.Batch(func() { fmt.Fprintf(w, "line of %d\n", i) })
				fmt.Fprintf(w, "line of %d\n", i)
			}
		})
	}
	all.Wait()
	lines := strings.SplitAfter(strings.Join(got, ""), "\n")
	if len(lines) != 801 || slices.ContainsFunc(lines[:800], func(l string) bool { return len(l) != len("line of 0\n") }) {
		t.Errorf("%d lines, want 800 whole ones", len(lines)-1)
	}
}
