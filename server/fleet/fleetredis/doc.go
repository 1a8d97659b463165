// Package fleetredis stores the shared data of a fleet in Redis: [Exchange] for fleet/async and fleet/region,
// [RegionStore] for fleet/region, and [MemberList] for fleet/membership.
//
// No decision reads this data. If Redis loses it, nodes write it again from their own counters.
package fleetredis
