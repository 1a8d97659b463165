// Command workers starts no more than ten jobs a second, and runs no more than three at once.
package main

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// run runs all jobs on eight workers.
func run(ctx context.Context, limiter headgate.Limiter, jobs []func()) error {
	starts := headgate.MustBind(limiter, headgate.MustParseLimit("10/s burst 1"))
	slots := headgate.MustBind(limiter, headgate.InFlight(3))
	queue := make(chan func(), len(jobs))
	for _, job := range jobs {
		queue <- job
	}
	close(queue)
	var workers sync.WaitGroup
	errs := make(chan error, 8)
	for range 8 {
		workers.Go(func() {
			for job := range queue {
				if err := runJob(ctx, slots, starts, job); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(errs)
	return <-errs // nil if no worker failed
}

// runJob runs a job when it has a slot and may start.
func runJob(ctx context.Context, slots, starts *headgate.Bound, job func()) error {
	release, err := slots.Hold(ctx, "running jobs")
	if err != nil {
		return err
	}
	defer release()
	if err = starts.Wait(ctx, "started jobs"); err == nil {
		job()
	}
	return err
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	jobs := []func(){func() { fmt.Println("one") }, func() { fmt.Println("two") }, func() { fmt.Println("three") }}
	if err := run(context.Background(), store, jobs); err != nil {
		log.Print(err)
	}
}
