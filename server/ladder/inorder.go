package ladder

import (
	"container/heap"
	"context"
	"time"
)

// sendInOrder sends all requests of a step in virtual time. Each is retried on its own.
func (r *stepRun) sendInOrder(ctx context.Context) error {
	var queue attempts
	for i := range r.step.Requests {
		queue = append(queue, attempt{r.start.Add(r.step.arrival(i)), i})
	}
	for len(queue) > 0 {
		next := &queue[0]
		if err := r.o.Clock.SleepUntil(ctx, next.at); err != nil {
			return err
		}
		admittedAt, retryAt, err := r.try(ctx)
		if err != nil {
			return err
		}
		if retryAt.IsZero() {
			heap.Pop(&queue)
			r.add(admittedAt)
			continue
		}
		next.at = retryAt
		heap.Fix(&queue, 0)
	}
	return nil
}

// An attempt is the next attempt of a request.
type attempt struct {
	at      time.Time
	request int
}

// attempts is a heap by time. At the same time, the request that was first sent first is first.
type attempts []attempt

func (a attempts) Len() int { return len(a) }

func (a attempts) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].request < a[j].request
}

func (a attempts) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *attempts) Push(x any) { *a = append(*a, x.(attempt)) }

// Pop implements heap.Interface.
func (a *attempts) Pop() any {
	last := len(*a) - 1
	item := (*a)[last]
	*a = (*a)[:last]
	return item
}
