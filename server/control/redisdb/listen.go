package redisdb

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control/internal/notify"
)

// listen wakes the watches when Redis notifies of a change, and subscribes again after an outage, until ctx ends.
func (db *DB) listen(ctx context.Context) {
	// Changes may have been missed before each confirmed subscription.
	listenCtx := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { db.changes.Notify() })
	notify.Listen(listenCtx, func(ctx context.Context) error {
		return db.client.Receive(ctx, db.client.B().Subscribe().Channel(db.channel()).Build(),
			func(rueidis.PubSubMessage) { db.changes.Notify() })
	}, func(err error) {
		db.log.Warn("no change notifications from the database, polling every few seconds instead", "database", db.name,
			"err", err)
	})
}
