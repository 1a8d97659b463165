package redisdb

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

const (
	// retryMin and retryMax bound how long to wait before subscribing again.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// listen wakes the watches when Redis tells of a change, and subscribes again when it was away, until ctx ends.
func (db *DB) listen(ctx context.Context) {
	wait := retryMin
	// Each time that the subscription is confirmed there may be something that was missed before.
	hearing := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { db.pulse.Beat() })
	for ctx.Err() == nil {
		started := time.Now()
		err := db.client.Receive(hearing, db.client.B().Subscribe().Channel(db.channel()).Build(), func(rueidis.PubSubMessage) { db.pulse.Beat() })
		if ctx.Err() != nil {
			return
		}
		db.log.Warn("no word of changes from the database; looking every few seconds instead", "database", db.name, "error", err)
		if time.Since(started) > retryMax {
			wait = retryMin
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		wait = min(2*wait, retryMax)
	}
}
