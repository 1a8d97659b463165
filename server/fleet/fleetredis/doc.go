// Package fleetredis keeps in Redis what the nodes of a fleet share: [Exchange] for fleet/async and fleet/region,
// [RegionStore] for fleet/region, and [MemberList] for fleet/membership.
//
// Nothing in Redis is a counter that decisions depend on. If Redis loses its data, nodes write again what they know.
package fleetredis
