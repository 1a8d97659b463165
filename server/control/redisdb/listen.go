package redisdb

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control/internal/notify"
)

// listen calls db.changes.Notify when Redis notifies of a change. It subscribes again after an outage, until ctx ends.
func (db *DB) listen(ctx context.Context) {
	// Notify also after each new subscription, because changes before it may have been missed.
	listenCtx := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { db.changes.Notify() })
	notify.Listen(listenCtx, func(ctx context.Context) error {
		return db.client.Receive(ctx, db.client.B().Subscribe().Channel(db.channel()).Build(),
			func(rueidis.PubSubMessage) { db.changes.Notify() })
	}, func(err error) {
		db.log.Warn("no change notifications from the database, polling every few seconds instead", "database", db.name,
			"err", err)
	})
}
