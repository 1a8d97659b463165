package redisdb

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/control/internal/pulse"
)

// listen wakes the watches when Redis tells of a change, and subscribes again when it was away, until ctx ends.
func (db *DB) listen(ctx context.Context) {
	// Each time that the subscription is confirmed there may be something that was missed before.
	hearing := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { db.pulse.Beat() })
	pulse.Listen(hearing, func(ctx context.Context) error {
		return db.client.Receive(ctx, db.client.B().Subscribe().Channel(db.channel()).Build(), func(rueidis.PubSubMessage) { db.pulse.Beat() })
	}, func(err error) {
		db.log.Warn("no word of changes from the database; looking every few seconds instead", "database", db.name, "err", err)
	})
}
